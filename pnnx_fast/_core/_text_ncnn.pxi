# The reader of ncnn's text .param files: tuples and lists, in one pass over the C lexer. Included by text.pyx.

cdef extern from "text/ncnn_lex.h":
    ctypedef enum pf_ncnn_kind:
        PF_NCNN_END, PF_NCNN_ANY, PF_NCNN_INT, PF_NCNN_FLOAT
        PF_NCNN_ANYS, PF_NCNN_INTS, PF_NCNN_FLOATS, PF_NCNN_STRING
    enum:
        PF_NCNN_SLOTS, PF_NCNN_TEXT, PF_NCNN_ARRAY
    ctypedef struct pf_ncnn_lexer:
        const char *at
        const char *begin
        const char *end
        const char *reason
    ctypedef struct pf_ncnn_number:
        pf_ncnn_kind kind
        int integer
        float real
    ctypedef struct pf_ncnn_param:
        int id
        pf_ncnn_kind kind
        pf_span text
        pf_span token
        int64_t count
    void pf_ncnn_start(pf_ncnn_lexer *lexer, const char *text, size_t size) nogil
    pf_code pf_ncnn_word(pf_ncnn_lexer *lexer, pf_span *word) nogil
    pf_code pf_ncnn_count(pf_ncnn_lexer *lexer, int *value) nogil
    pf_code pf_ncnn_pair(pf_ncnn_lexer *lexer, pf_ncnn_param *param) nogil
    pf_code pf_ncnn_element(pf_span *text, pf_ncnn_kind force, pf_ncnn_number *number) nogil

NCNN_CODES = (PF_NCNN_END, PF_NCNN_ANY, PF_NCNN_INT, PF_NCNN_FLOAT,
              PF_NCNN_ANYS, PF_NCNN_INTS, PF_NCNN_FLOATS, PF_NCNN_STRING)
NCNN_SLOTS, NCNN_TEXT, NCNN_ARRAY = PF_NCNN_SLOTS, PF_NCNN_TEXT, PF_NCNN_ARRAY

# Blobs that a header may ask for beyond one a byte of the file, so that it cannot ask for memory.
cdef int SPARE_BLOBS = 1 << 16
NCNN_SPARE_BLOBS = SPARE_BLOBS


cdef class _NcnnReader:
    cdef pf_ncnn_lexer lexer
    cdef bytes data
    cdef object path

    def __init__(self, bytes data, path):
        self.data, self.path = data, path
        pf_ncnn_start(&self.lexer, self.data, len(data))

    cdef int fail(self, const char *at, str reason, error=FormatError) except -1:
        cdef bytes head = self.lexer.begin[:at - self.lexer.begin]
        line = head.count(b"\n") + 1
        column = len(head[head.rfind(b"\n") + 1:].decode("utf-8", "replace")) + 1
        raise error(reason, path=self.path, line=line, column=column)

    cdef int check(self, pf_code code, str what) except -1:
        if code != PF_OK:
            self.fail(self.lexer.at, f"{what}: {self.lexer.reason.decode('ascii')}")
        return 0

    cdef str text(self, pf_span span):
        return PyUnicode_DecodeUTF8(span.begin, span.end - span.begin, "surrogateescape")

    cdef str word(self, str what):
        cdef pf_span span
        self.check(pf_ncnn_word(&self.lexer, &span), what)
        return self.text(span)

    cdef int count(self, str what) except? -1:
        cdef int value = 0
        self.check(pf_ncnn_count(&self.lexer, &value), what)
        return value

    cdef list names(self, int n, str what):
        cdef int i
        return [self.word(what) for i in range(n)]

    cdef read(self):
        cdef int magic = self.count("magic number")
        if magic != 7767517:
            self.fail(self.lexer.at, f"the magic number is {magic}, not 7767517")
        cdef int layer_count = self.count("number of layers")
        cdef int blob_count = self.count("number of blobs")
        if layer_count <= 0 or blob_count <= 0:
            self.fail(self.lexer.at, f"{layer_count} layers and {blob_count} blobs")
        if layer_count > len(self.data) or blob_count - SPARE_BLOBS > len(self.data):
            self.fail(self.lexer.at, f"{layer_count} layers and {blob_count} blobs are too many", LimitError)
        cdef list layers = []
        cdef int i
        for i in range(layer_count):
            layers.append(self.layer(i, layer_count))
        return blob_count, layers, self.lexer.at - self.lexer.begin

    cdef tuple layer(self, int number, int layer_count):
        cdef Py_ssize_t begin = self.lexer.at - self.lexer.begin
        cdef pf_span type
        cdef pf_code code = pf_ncnn_word(&self.lexer, &type)
        if code != PF_OK:
            self.check(code, f"type of layer {number + 1} of {layer_count}")
        kind, name = intern(self.text(type)), self.word("layer name")
        cdef int bottoms = self.count(f"number of bottom blobs of {name}")
        cdef int tops = self.count(f"number of top blobs of {name}")
        if bottoms < 0 or tops < 0:
            self.fail(self.lexer.at, f"layer {name} has {bottoms} bottom and {tops} top blobs")
        inputs = self.names(bottoms, f"bottom blob of {name}")
        outputs = self.names(tops, f"top blob of {name}")
        params = self.params(name)
        return kind, name, inputs, outputs, params, begin, self.lexer.at - self.lexer.begin

    cdef dict params(self, str name):
        cdef dict params = {}
        cdef pf_ncnn_param param
        while True:
            self.check(pf_ncnn_pair(&self.lexer, &param), f"layer {name}")
            if param.kind == PF_NCNN_END:
                return params
            value = self.value(name, param)
            # ncnn keeps what came last.
            params.pop(param.id, None)
            params[param.id] = value, self.text(param.token)

    cdef tuple value(self, str name, pf_ncnn_param param):
        cdef pf_ncnn_number number
        cdef pf_ncnn_kind last
        if param.kind == PF_NCNN_STRING:
            return <int>param.kind, self.text(param.text)
        if param.kind == PF_NCNN_INT or param.kind == PF_NCNN_FLOAT:
            value = self.element(name, &param.text, PF_NCNN_END, &number)
            return <int>param.kind, value
        cdef list items = []
        cdef pf_ncnn_kind force = PF_NCNN_END
        if param.count < 0:
            force = PF_NCNN_INT if param.kind == PF_NCNN_INTS else PF_NCNN_FLOAT
        last = force
        while param.text.begin < param.text.end:
            items.append(self.element(name, &param.text, force, &number))
            last = number.kind
        if param.count >= 0 and len(items) != param.count:
            self.fail(param.token.begin, f"layer {name}: {len(items)} elements in an array of {param.count}")
        # The last element of an old array decides its type; an empty one has none of its own.
        return (<int>last + 3 if items else 4), items

    cdef object element(self, str name, pf_span *text, pf_ncnn_kind force, pf_ncnn_number *number):
        cdef const char *at = text.begin
        if pf_ncnn_element(text, force, number) != PF_OK:
            self.fail(at, f"layer {name}: not a finite number of 32 bits")
        return number.integer if number.kind == PF_NCNN_INT else <double>number.real


def read_ncnn_layers(bytes data, path=None):
    """Read an ncnn .param text to (blob count, layers, end).

    A layer is (type, name, bottoms, tops, {id: ((type code, value), token)}, begin, end), where the last two are
    byte offsets.
    """
    return _NcnnReader(data, path).read()
