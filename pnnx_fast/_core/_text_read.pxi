# The reader of .param text: objects of the IR in one pass over the C scanner. Included by text.pyx.

cdef int64_t CAPTURED = -233
cdef int MAX_RANK = 64
# Lines with fewer inputs find a slot by looking at each.
cdef int FEW_INPUTS = 16


cdef class _Reader:
    cdef new_function new_parameter
    cdef const char *decoding
    cdef pf_scan scan
    cdef bytes data
    cdef object path
    cdef bint pattern
    cdef uint64_t max_operators, max_bytes
    cdef int64_t declared_operands
    cdef object Operator, Operand, Parameter, Parameters, Attribute, Attributes
    cdef dict sizes
    cdef object raw_keys
    cdef list ops, weights
    cdef dict operands, slots

    def __init__(self, bytes data, path, bint pattern, limits, classes, dict sizes, raw_keys):
        self.data, self.path, self.pattern = data, path, pattern
        self.max_operators, self.max_bytes = limits
        self.Operator, self.Operand, self.Parameter, self.Parameters, self.Attribute, self.Attributes = classes
        self.sizes, self.raw_keys = sizes, raw_keys
        self.new_parameter = new_of(self.Parameter)
        self.ops, self.weights, self.operands = [], [], {}

    # Errors and strings

    cdef int fail(self, const char *at, str reason, error=FormatError) except -1:
        cdef bytes head = self.scan.line_begin[:at - self.scan.line_begin]
        column = len(head.decode("utf-8", "replace")) + 1
        raise error(reason, path=self.path, line=self.scan.line, column=column)

    cdef str string(self, const char *begin, const char *end):
        self.decoding = begin
        return PyUnicode_DecodeUTF8(begin, end - begin, NULL)

    cdef str word(self, const char *begin, const char *end):
        """A string that occurs often: all its occurrences become one object."""
        return intern(self.string(begin, end))

    cdef str found(self, pf_span token):
        if token.begin == token.end:
            at_end = token.end == self.scan.end or token.end[0] in b"\r\n"
            return "the end of the line" if at_end else "nothing"
        cdef const char *end = token.begin + min(token.end - token.begin, 40)
        return repr(token.begin[:end - token.begin].decode("utf-8", "replace"))

    cdef int64_t integer(self, pf_span token, str what) except? -1:
        cdef int64_t value = 0
        cdef pf_code code = pf_parse_i64(token, &value)
        if code == PF_ELIMIT:
            self.fail(token.begin, f"{what} does not fit in 64 bits", LimitError)
        if code != PF_OK:
            self.fail(token.begin, f"expected {what}, found {self.found(token)}")
        return value

    # Lines

    cdef read(self):
        cdef const char *text = self.data
        pf_scan_start(&self.scan, text, len(self.data))
        try:
            self.lines()
        except UnicodeDecodeError as e:
            byte = e.object[e.start]
            self.fail(self.decoding + <Py_ssize_t>e.start, f"byte 0x{byte:02x} is not UTF-8")
        return self.ops, self.operands, self.weights, self.declared_operands

    cdef int lines(self) except -1:
        cdef int64_t count = self.header()
        while pf_scan_line(&self.scan):
            if len(self.ops) == count:
                self.fail(self.scan.line_begin, f"the header declares {count} operators, here is one more")
            self.operator()
        if len(self.ops) < count:
            self.fail(self.scan.at, f"the header declares {count} operators, the file has {len(self.ops)}")
        return 0

    cdef int64_t header(self) except -1:
        cdef pf_span token
        if self.data.startswith(b"\xef\xbb\xbf"):
            self.scan.at += 3
        if not pf_scan_line(&self.scan):
            self.fail(self.scan.at, "expected the magic number 7767517, found the end of the file")
        pf_scan_token(&self.scan, &token)
        if token.begin[:token.end - token.begin] != b"7767517":
            self.fail(token.begin, f"expected the magic number 7767517, found {self.found(token)}")
        if not pf_scan_line(&self.scan):
            self.fail(self.scan.at, "expected the numbers of operators and operands, found the end of the file")
        pf_scan_token(&self.scan, &token)
        cdef int64_t count = self.integer(token, "the number of operators")
        if count < 0:
            self.fail(token.begin, f"the number of operators is {count}")
        if <uint64_t>count > self.max_operators:
            self.fail(token.begin, f"{count} operators, the limit is {self.max_operators}", LimitError)
        # PNNX never looks at the number of operands; it is kept for the file that is written again.
        pf_scan_token(&self.scan, &token)
        self.declared_operands = self.integer(token, "the number of operands")
        return count

    cdef int operator(self) except -1:
        cdef pf_span token
        cdef object op = self.Operator.__new__(self.Operator)
        pf_scan_token(&self.scan, &token)
        op.type = self.word(token.begin, token.end)
        if not pf_scan_token(&self.scan, &token):
            self.fail(token.begin, "expected the name of the operator, found the end of the line")
        op.name = self.string(token.begin, token.end)
        cdef int64_t n_inputs = self.count("inputs")
        cdef int64_t n_outputs = self.count("outputs")
        op.inputs = self.inputs(op, n_inputs)
        op.outputs = self.outputs(op, n_outputs)
        op.inputnames = []
        op.params = self.Parameters.__new__(self.Parameters)
        op.attrs = self.Attributes.__new__(self.Attributes)
        self.slots = None
        while pf_scan_token(&self.scan, &token):
            if token.begin[0] == c"@":
                self.attribute(op, token)
            elif token.begin[0] == c"$":
                self.inputname(op, token)
            elif token.begin[0] == c"#":
                self.hint(op, token)
            else:
                self.parameter(op.params, token)
        untrack(op.inputnames)
        untrack(op.params)
        self.ops.append(op)
        return 0

    cdef int64_t count(self, str what) except -1:
        cdef pf_span token
        pf_scan_token(&self.scan, &token)
        cdef int64_t value = self.integer(token, f"the number of {what}")
        if value < 0:
            self.fail(token.begin, f"the number of {what} is {value}")
        return value

    cdef list inputs(self, op, int64_t n):
        cdef list result = []
        cdef pf_span token
        cdef int64_t i
        for i in range(n):
            if not pf_scan_token(&self.scan, &token):
                self.fail(token.begin, f"{n} inputs declared, found {i}")
            name = self.string(token.begin, token.end)
            operand = self.operands.get(name)
            if operand is None:
                self.fail(token.begin, f"operand {name!r} is not an output of any line above")
            operand.consumers.append(op)
            result.append(operand)
        return result

    cdef list outputs(self, op, int64_t n):
        cdef list result = []
        cdef pf_span token
        cdef int64_t i
        for i in range(n):
            if not pf_scan_token(&self.scan, &token):
                self.fail(token.begin, f"{n} outputs declared, found {i}")
            if pf_span_find(token, c"=") != token.end:
                self.fail(token.begin, f"{n} outputs declared, found {i} and then {self.found(token)}")
            name = self.string(token.begin, token.end)
            if name in self.operands:
                self.fail(token.begin, f"operand {name!r} is an output already")
            operand = self.Operand.__new__(self.Operand)
            operand._name = name
            operand._params = operand.dtype = operand.shape = None
            operand.producer = op
            operand.consumers = []
            operand.was_read = False
            self.operands[name] = operand
            result.append(operand)
        return result

    # Items after the operands

    cdef int parameter(self, params, pf_span token) except -1:
        cdef const char *equals = pf_span_find(token, c"=")
        if equals == token.end:
            self.fail(token.begin, f"expected key=value, found {self.found(token)}")
        key = self.word(token.begin, equals)
        if key in params:
            self.fail(token.begin, f"parameter {key!r} is given twice")
        token.end = self.value_end(token.end)
        cdef ParameterStorage param = self.new_parameter(<PyTypeObject *>self.Parameter, (), NULL)
        cdef str text = self.string(equals + 1, token.end)
        param._raw = text
        if key in self.raw_keys:
            param._code = PF_STRING
            param._value = text
        else:
            param._code = UNPARSED_CODE
            param._value = None
            # Shorter texts cannot overflow; all others are parsed when they are asked for.
            if token.end - equals > 19:
                try:
                    param._parse()
                except ParameterError as e:
                    self.fail(equals + 1, str(e), LimitError)
        PyDict_SetItem(params, key, param)  # without the wrapping of Parameters.__setitem__
        return 0

    cdef const char *value_end(self, const char *end):
        """The end of a value that may have blanks: PNNX writes strings as they are.

        Words without = that follow a value belong to it, also those like @1 of an expression.
        """
        cdef pf_span word
        cdef const char *after = self.scan.at
        while pf_scan_token(&self.scan, &word) and word.begin[0] not in b"#$":
            if word.begin[0] == c"@" and (word.end == word.begin + 1 or not c"0" <= word.begin[1] <= c"9"):
                break
            if pf_span_find(word, c"=") != word.end:
                break
            end = after = word.end
        self.scan.at = after
        return end

    cdef int attribute(self, op, pf_span token) except -1:
        cdef const char *equals = pf_span_find(token, c"=")
        cdef pf_span text = pf_span(equals + (equals < token.end), token.end)
        key = self.word(token.begin + 1, equals)
        if key in op.attrs:
            self.fail(token.begin, f"attribute {key!r} is given twice")
        attr = self.Attribute()
        if self.pattern and (text.begin == text.end or text.begin[0] == c"%"):
            attr.data = text.begin[:text.end - text.begin]
        else:
            attr.dtype, attr.shape = self.typed_shape(text, attr, not self.pattern)
            self.weights.append((op, key, self.scan.line, token.begin - self.scan.line_begin + 1))
        PyDict_SetItem(op.attrs, key, attr)  # without the wrapping of Attributes.__setitem__
        return 0

    cdef int inputname(self, op, pf_span token) except -1:
        cdef const char *equals = pf_span_find(token, c"=")
        cdef list names = op.inputnames
        if equals == token.end:
            self.fail(token.begin, f"expected $name=operand, found {self.found(token)}")
        operand = self.operands.get(self.string(equals + 1, token.end))
        if not names:
            names = op.inputnames = [""] * len(op.inputs)
        slot = self.free_slot(op.inputs, names, operand)
        if slot < 0:
            self.fail(equals + 1, f"{self.found(pf_span(equals + 1, token.end))} is in no input slot left to name")
        names[slot] = self.word(token.begin + 1, equals)
        return 0

    cdef Py_ssize_t free_slot(self, list inputs, list names, operand) except -2:
        """The first input slot that holds an operand and has no name, -1 when there is none."""
        cdef Py_ssize_t i
        if len(inputs) <= FEW_INPUTS:
            for i in range(len(inputs)):
                if inputs[i] is operand and names[i] == "":
                    return i
            return -1
        if self.slots is None:
            self.slots = {}
            for i in range(len(inputs) - 1, -1, -1):
                self.slots.setdefault(inputs[i], []).append(i)
        free = self.slots.get(operand)
        return free.pop() if free else -1

    cdef int hint(self, op, pf_span token) except -1:
        cdef const char *equals = pf_span_find(token, c"=")
        operand = self.operands.get(self.string(token.begin + 1, equals))
        if operand is None or (operand.producer is not op and
                               not (operand.consumers and operand.consumers[-1] is op)):
            self.fail(token.begin, f"{self.found(pf_span(token.begin + 1, equals))} is no operand of this line")
        operand.dtype, operand.shape = self.typed_shape(
            pf_span(equals + (equals < token.end), token.end), operand, False)
        return 0

    cdef tuple typed_shape(self, pf_span text, owner, bint exact):
        """(dtype or None, shape) of a text like (1,?,%w)f32; names of captured sizes go to owner.params."""
        cdef pf_span inner = pf_span(text.begin + 1, pf_span_find(text, c")"))
        if text.begin == text.end or text.begin[0] != c"(" or inner.end == text.end:
            self.fail(text.begin, f"expected a shape and a dtype like (1,3)f32, found {self.found(text)}")
        cdef pf_span rest = pf_span(inner.end + 1, text.end)
        dtype = self.word(rest.begin, rest.end)
        cdef uint64_t size = 1
        if dtype == "null":
            dtype = None
        elif dtype in self.sizes:
            size = self.sizes[dtype]
        else:
            self.fail(rest.begin, f"expected a dtype ({' '.join(self.sizes)} null), found {self.found(rest)}")
        return dtype, self.dims(inner, owner, exact, size)

    cdef tuple dims(self, pf_span text, owner, bint exact, uint64_t size):
        cdef list result = []
        cdef pf_span dim
        cdef int64_t value
        dim.begin = text.begin
        while dim.begin < text.end or result:
            dim.end = pf_span_find(pf_span(dim.begin, text.end), c",")
            if dim.end > dim.begin and not exact and dim.begin[0] == c"?" and dim.end - dim.begin == 1:
                value = -1
            elif dim.end > dim.begin and not exact and dim.begin[0] == c"%":
                value = CAPTURED
                owner.params[f"__shape__{len(result)}"] = self.string(dim.begin + 1, dim.end)
            else:
                value = self.integer(dim, "a dimension")
                if value < 0 and (exact or (value != -1 and value != CAPTURED)):
                    self.fail(dim.begin, f"dimension {value} is negative")
            if not pf_mul_u64(size, max(value, 1), &size) or size > self.max_bytes:
                self.fail(text.begin - 1, f"a tensor of more than {self.max_bytes} bytes", LimitError)
            if len(result) == MAX_RANK:
                self.fail(text.begin - 1, f"a tensor of more than {MAX_RANK} dimensions", LimitError)
            result.append(value)
            if dim.end == text.end:
                break
            dim.begin = dim.end + 1
        cdef tuple shape = tuple(result)
        untrack(shape)
        return shape


def read_operators(bytes data, path, bint pattern, max_operators, max_bytes, classes, dict sizes, raw_keys):
    """Read the text of a .param file.

    Parameters
    ----------
    data : bytes
    path : str or None
        For errors.
    pattern : bool
        Accept what only patterns have: attributes without or with captured content, symbolic dimensions.
    max_operators, max_bytes : int
        Most operators and largest tensor accepted.
    classes : tuple of type
        Operator, Operand, Parameter, Parameters, Attribute and Attributes.
    sizes : dict of str to int
        Bytes an element by dtype.
    raw_keys : set of str
        Keys of parameters whose text is not to be parsed.

    Returns
    -------
    tuple
        Operators (list), operands (dict by name), for every attribute with a shape (operator, key, line, column),
        and the number of operands that the header declares.
    """
    if data.startswith(b"PK"):
        raise FormatError("this is a zip archive; the text of a .param file begins with 7767517", path=path)
    nul = data.find(b"\0")
    if nul >= 0:
        line = data.count(b"\n", 0, nul) + 1
        raise FormatError("NUL byte in a text file", path=path, line=line, column=nul - data.rfind(b"\n", 0, nul))
    return _Reader(data, path, pattern, (max_operators, max_bytes), classes, sizes, raw_keys).read()
