# The writer of .param text: bytes from objects of the IR, in one growing buffer. Included by text.pyx.


cdef class _Writer:
    cdef char *data
    cdef size_t size, room
    cdef str operator_name
    cdef set written
    cdef object sizes, raw_keys

    def __dealloc__(self):
        free(self.data)

    cdef int fail(self, str reason) except -1:
        where = f"operator {self.operator_name}: " if self.operator_name else ""
        raise GraphError([f"{where}{reason}"])

    cdef int reserve(self, size_t more) except -1:
        cdef char *data
        if self.room - self.size < more:
            data = <char *>realloc(self.data, 2 * self.room + more)
            if data == NULL:
                raise MemoryError
            self.data = data
            self.room = 2 * self.room + more
        return 0

    cdef int put(self, const char *text, size_t size) except -1:
        self.reserve(size)
        memcpy(self.data + self.size, text, size)
        self.size += size
        return 0

    cdef int byte(self, char value) except -1:
        return self.put(&value, 1)

    cdef int word(self, str text, str what, char forbidden) except -1:
        """A token: a blank would end it, the forbidden byte would split it."""
        cdef Py_ssize_t size, i
        cdef const char *begin
        if text is None:
            self.fail(f"{what} is None")
        begin = PyUnicode_AsUTF8AndSize(text, &size)
        for i in range(size):
            if 0 <= begin[i] <= c" " and (begin[i] == c" " or begin[i] == 0 or c"\t" <= begin[i] <= c"\r"):
                self.fail(f"{what} {text!r} has a blank, which the format cannot express")
            if begin[i] == forbidden and forbidden:
                self.fail(f"{what} {text!r} has a {chr(forbidden)!r}, which the format cannot express")
        return self.put(begin, size)

    cdef int name(self, str text, str what, size_t width) except -1:
        cdef size_t start = self.size
        if text == "":
            self.fail(f"{what} is empty")
        self.word(text, what, 0)
        if self.size - start < width:
            self.reserve(width)
            memset(self.data + self.size, c" ", width - (self.size - start))
            self.size = start + width
        return 0

    cdef int number(self, object value) except -1:
        text = b"%d" % value
        return self.put(text, len(text))

    cdef int line(self, op) except -1:
        """The line of an operator; every fault is a GraphError."""
        try:
            return self.operator(op)
        except UnicodeEncodeError as e:
            self.fail(f"{e.object!r} is not Unicode text")

    cdef int operator(self, op) except -1:
        cdef list inputs = op.inputs, outputs = op.outputs, names = op.inputnames
        self.operator_name = op.name
        self.name(op.type, "the type", 24)
        self.byte(c" ")
        self.name(op.name, "the name", 24)
        self.byte(c" ")
        self.number(len(inputs))
        self.byte(c" ")
        self.number(len(outputs))
        for operand in inputs:
            if operand not in self.written:
                self.fail(f"input {operand.name!r} is not an output of any operator before it")
            self.byte(c" ")
            self.name(operand._name, "the name of an operand", 0)
        for operand in outputs:
            if operand in self.written:
                self.fail(f"output {operand.name!r} is an output of an operator before it, too")
            self.written.add(operand)
            self.byte(c" ")
            self.name(operand._name, "the name of an operand", 0)
        self.parameters(op.params)
        self.attributes(op.attrs)
        if len(names) == len(inputs):
            for name, operand in zip(names, inputs):
                if name:
                    self.item(c"$", name)
                    self.word(operand._name, "the name of an operand", 0)
        for operand in inputs:
            self.hint(operand)
        for operand in outputs:
            self.hint(operand)
        return self.byte(c"\n")

    cdef int item(self, char sigil, str key) except -1:
        self.byte(c" ")
        if sigil:
            self.byte(sigil)
        elif key[:1] in ("@", "$", "#"):
            self.fail(f"parameter {key!r} begins with {key[0]!r}, which the format cannot express")
        self.word(key, "the name of an item", c"=")
        return self.byte(c"=")

    cdef int parameters(self, params) except -1:
        cdef ParameterStorage param
        for key in sorted(params):
            param = params[key]
            self.item(0, key)
            # A list may have been edited in place, so its raw text need not hold any more.
            text = param.text if param._raw is None or isinstance(param._value, list) else param._raw
            self.value(text, key)
            if key not in self.raw_keys:
                self.same(param, text, key)
        return 0

    cdef int value(self, str text, str key) except -1:
        """A value, which may have blanks as long as no word after one looks like an item of its own."""
        cdef Py_ssize_t size, i
        cdef const char *begin = PyUnicode_AsUTF8AndSize(text, &size)
        for i in range(size):
            if 0 <= begin[i] <= c" ":
                break
        else:
            return self.put(begin, size)
        cdef list words = re.split("[ \t\v\f\r]+", text)
        for word in words[1:]:
            if "=" in word or word[:1] in ("#", "$") or (word[:1] == "@" and not "0" <= word[1:2] <= "9"):
                self.fail(f"the value of {key} has the word {word!r}, which would be read as an item")
        if "\n" in text or "\0" in text:
            self.fail(f"the value of {key} {text!r} has a line break, which the format cannot express")
        if len(words) > 1 and words[len(words) - 1] == "":
            self.fail(f"the value of {key} ends with a blank, which the format cannot express")
        return self.put(begin, size)

    cdef int same(self, ParameterStorage param, str text, str key) except -1:
        """Check that a value that no file had will be read as the same: one of its type, with its words.

        Numbers that are not finite, and None and bool in lists, are words in a file; operators take them for what they
        say.
        """
        cdef object value = param._value
        cdef bint is_list = isinstance(value, list)
        if not is_list and param._code != PF_STRING and param._code != PF_COMPLEX:
            return 0
        if text is param._raw and param._code != PF_STRING:
            return 0
        try:
            code, read = parse_value(text)
        except OverflowError:
            code, read = PF_INT, text
        if not is_list and code == param._code:
            return 0
        if is_list and isinstance(read, list) and len(read) == len(value):
            if not any(isinstance(a, str) and a != b for a, b in zip(value, read)):
                return 0
        told = "an integer" if code == PF_INT and read is text else repr(read)
        self.fail(f"the value of {key} is {value!r}, which the format cannot express: it would be read as {told}")

    cdef int attributes(self, attrs) except -1:
        for key in sorted(attrs):
            attr = attrs[key]
            self.item(c"@", key)
            self.typed_shape(attr.shape, attr.dtype)
        return 0

    cdef int hint(self, operand) except -1:
        shape = operand.shape
        if shape:
            self.item(c"#", operand._name)
            self.typed_shape(shape, operand.dtype)
        return 0

    cdef int typed_shape(self, shape, dtype) except -1:
        cdef bint first = True
        self.byte(c"(")
        for dim in shape:
            if not first:
                self.byte(c",")
            first = False
            if dim == -1:
                self.byte(c"?")
            else:
                self.number(dim)
        self.byte(c")")
        if dtype is not None and dtype not in self.sizes:
            self.fail(f"there is no dtype {dtype!r}; the dtypes are {' '.join(self.sizes)}")
        return self.word("null" if dtype is None else dtype, "the dtype", 0)


cdef _Writer new_writer(dict sizes, raw_keys):
    cdef _Writer writer = _Writer()
    writer.written = set()
    writer.sizes, writer.raw_keys = sizes, raw_keys
    return writer


def write_operators(list ops, Py_ssize_t operand_count, dict sizes, raw_keys):
    """Return the text of a .param file as bytes; the sizes of dtypes and the raw keys are those of the reader.

    Raises
    ------
    GraphError
        When the order of operators or a name or value is nothing that the format can express.
    """
    cdef _Writer writer = new_writer(sizes, raw_keys)
    header = b"7767517\n%d %d\n" % (len(ops), operand_count)
    writer.put(header, len(header))
    for op in ops:
        writer.line(op)
    return writer.data[:writer.size]


def unwritable(list ops, dict sizes, raw_keys):
    """Return what keeps operators from being written, one sentence for each operator that cannot be."""
    cdef _Writer writer = new_writer(sizes, raw_keys)
    cdef list found = []
    for op in ops:
        writer.size = 0
        try:
            writer.line(op)
        except GraphError as e:
            found += e.problems
            writer.written.update(op.outputs)
    return found
