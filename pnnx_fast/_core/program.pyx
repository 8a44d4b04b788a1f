# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False, embedsignature=True
"""Binding of the executor: kernel lists, packing of argument structs by field name, running of programs.

The only module linked with the executor, so that thread team and ISA tables exist once in a process. It knows no
policy: what steps mean and where memory lies is decided in Python.
"""
from cython cimport no_gc_clear
from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset, strcmp

from sys import intern

from pnnx_fast.errors import ExpressionError, IndexRangeError, NativeOperatorError

include "_program_core.pxi"

cdef int MAX_TABLES = 8
cdef const pf_kernel_table *tables[8]
cdef int table_count = pf_tables(tables, MAX_TABLES)


def _read_kernels():
    cdef const pf_kind *kinds = pf_kinds()
    cdef int i
    return {tables[0].entries[i].name.decode(): kinds[tables[0].entries[i].kind].name.decode()
            for i in range(tables[0].count)}


KERNELS = _read_kernels()
MAX_RANK, MAX_INS, MAX_OPERATIONS = PF_MAX_RANK, PF_MAX_INS, PF_MAX_OPERATIONS
MOST_THREADS = PF_MOST_THREADS
STRIP_STAGES = PF_STRIP_STAGES
POOL_REACH, POOL_STEP, POOL_LINE = PF_POOL_REACH, PF_POOL_STEP, PF_POOL_LINE
WINO_PHASES, WINO_PAIRS, MASK_QUERIES = PF_WINO_PHASES, PF_WINO_PAIRS, PF_MASK_QUERIES
SPLIT_SIDE, SPLIT_DEPTH, SPLIT_DIGITS = PF_SPLIT_SIDE, PF_SPLIT_DEPTH, PF_SPLIT_DIGITS
THIN_PIXELS = PF_THIN_PIXELS
ADDERS, HALVES = pf_cpu_features() & PF_CPU_ADDERS != 0, pf_cpu_features() & PF_CPU_HALVES != 0
ISAS = tuple([tables[i].isa.decode() for i in range(table_count)])

# All tables list the same kernels in the same order.
cdef dict places = {name: i for i, name in enumerate(KERNELS)}
cdef list known_names = [None] * PF_KIND_COUNT


cdef list names_of(int kind):
    """Names of the fields of a kind, in order; read when the kind is first used."""
    cdef const pf_kind *k = pf_kinds() + kind
    cdef int i
    if known_names[kind] is None:
        known_names[kind] = [intern(k.fields[i].name.decode()) for i in range(k.count)]
    return known_names[kind]


def fields(str kernel):
    """Names of the fields of a kernel's arguments, with their types."""
    cdef const pf_kind *k = pf_kinds() + tables[0].entries[<int>places[kernel]].kind
    cdef int i
    return {k.fields[i].name.decode(): k.fields[i].type.decode() for i in range(k.count)}


def codes(str name):
    """Codes of a list of ``kernels/codes.h``, or of the "operation"s of expressions, by their names."""
    cdef const pf_code_list *lists
    cdef int i, j, count = pf_code_lists(&lists)
    for i in range(count):
        if lists[i].name.decode() == name:
            return {lists[i].names[j].decode(): j for j in range(lists[i].count)}
    raise KeyError(f"there is no list of codes {name!r}")


def team():
    """Name of the thread team in use: "threads" or "openmp"."""
    return pf_team_name().decode()


def choose_team(str name):
    """Use the thread team of that name from now on; ValueError when this build has none."""
    if name == "threads":
        pf_team_choose_threads()
        return
    if name != "openmp":
        raise ValueError(f"no thread team {name!r}; there are 'threads' and 'openmp'")
    try:
        from pnnx_fast._core.openmp import region
    except ImportError as error:
        raise ValueError(f"no thread team 'openmp' in this build: {error}") from None
    pf_team_choose_openmp(<pf_region_fn>PyCapsule_GetPointer(region, NULL))


def default_threads():
    """Number of CPUs that this process may use, at least 1."""
    return pf_team_default_threads()


cdef const pf_kernel_entry *find_kernel(str isa, str name) except NULL:
    if isa not in ISAS:
        raise KeyError(f"ISA level {isa!r} is not available here; there are {', '.join(ISAS)}")
    if name not in places:
        raise KeyError(f"no kernel named {name!r}")
    return &tables[<int>ISAS.index(isa)].entries[<int>places[name]]


cdef struct bounds:
    int64_t first
    int64_t last


cdef int put_ref(char *at, object value, bounds bases) except -1:
    cdef pf_ref *ref = <pf_ref *>at
    if value is None:
        ref.base = -1
        ref.offset = 0
    else:
        ref.base = value[0]
        ref.offset = value[1]
        if ref.base != -1 and not bases.first <= ref.base <= bases.last:
            raise ValueError(f"a reference names base {ref.base}, there are {bases.first} to {bases.last}")
    return 0


cdef int pack(int kind, dict values, char *out, bounds bases) except -1:
    """Writes the struct of `kind` to `out`; every scalar field must be given, absent references become -1."""
    cdef const pf_kind *k = pf_kinds() + kind
    cdef list names = names_of(kind)
    cdef const char *form
    cdef char *at
    cdef int i, j, given = 0
    cdef PyObject *found
    memset(out, 0, k.size)
    for i in range(k.count):
        form, at = k.fields[i].type, out + k.fields[i].offset
        found = PyDict_GetItemWithError(values, names[i])
        value = None if found == NULL else <object>found
        given += found != NULL
        if form[0] == c"f" or (form[0] == c"i" and form[1] == c"6"):
            if value is None:
                raise TypeError(f"kernel arguments of kind {k.name.decode()!r} lack the field {names[i]!r}")
            if form[0] == c"i":
                (<int64_t *>at)[0] = value
            else:
                (<double *>at)[0] = value
        elif form[0] == c"d":
            if value is None or len(value) > PF_MAX_RANK:
                raise TypeError(f"field {names[i]!r} of kind {k.name.decode()!r} takes up to {PF_MAX_RANK} integers")
            for j in range(len(value)):
                (<int64_t *>at)[j] = value[j]
        elif strcmp(form, b"ins") == 0:
            value = value or ()
            if len(value) > PF_MAX_INS:
                raise TypeError(f"field {names[i]!r} of kind {k.name.decode()!r} takes up to {PF_MAX_INS} references")
            for j in range(PF_MAX_INS):
                put_ref(at + j * sizeof(pf_ref), value[j] if j < len(value) else None, bases)
        else:
            put_ref(at, value, bases)
    if given != len(values):
        unknown = sorted(values.keys() - set(names))
        raise TypeError(f"kernel arguments of kind {k.name.decode()!r} have no field {unknown}")
    return 0


cdef int64_t native_size(dict values) except -1:
    cdef int64_t n = len(values["forms"])
    if n > PF_NATIVE_MAX:
        raise ValueError(f"a native operator takes up to {PF_NATIVE_MAX} tensors, not {n}")
    return <int64_t>sizeof(pf_native_args) + n * <int64_t>sizeof(pf_native_tensor)


cdef int pack_native(dict values, char *out, bounds bases) except -1:
    """Writes the arguments of a user's operator: forms are (shape, strides, dtype, layout) of inputs, then outputs."""
    cdef pf_native_args *a = <pf_native_args *>out
    cdef pf_native_tensor *t
    cdef int i, d
    a.run = <pf_native_fn><uintptr_t>values["run"]
    a.state = <void *><uintptr_t>values["state"]
    put_ref(<char *>&a.scratch, values["scratch"], bases)
    inputs, outputs = values["inputs"], values["outputs"]
    a.ninputs, a.noutputs = len(inputs), len(outputs)
    if len(inputs) + len(outputs) != len(values["forms"]):
        raise ValueError("every tensor of a native operator needs a form")
    for i, (ref, form) in enumerate(zip((*inputs, *outputs), values["forms"])):
        shape, strides, dtype, layout = form
        if len(shape) > PF_MAX_RANK or len(shape) != len(strides):
            raise ValueError(f"a native operator takes tensors of up to {PF_MAX_RANK} dimensions")
        t = <pf_native_tensor *>(<char *>a.tensors + i * sizeof(pf_native_tensor))
        put_ref(<char *>&t.data, ref, bases)
        t.rank, t.dtype, t.layout = len(shape), dtype, layout
        for d in range(len(shape)):
            t.shape[d] = shape[d]
            t.strides[d] = strides[d]
    return 0


cdef int64_t strips_size(dict values) except -1:
    cdef int64_t n = len(values["stages"])
    if not 0 < n <= PF_STRIP_STAGES:
        raise ValueError(f"a chain has up to {PF_STRIP_STAGES} stages, not {n}")
    return <int64_t>sizeof(pf_strips_args) + n * <int64_t>sizeof(pf_strip_stage)


cdef int pack_strips(str isa, dict values, char *out, bounds bases) except -1:
    """Writes the arguments of a chain: stages are (kernel, its values, lines, offset of its buffer)."""
    cdef pf_strips_args *a = <pf_strips_args *>out
    cdef pf_strip_stage *s
    cdef const pf_kernel_entry *entry
    cdef int i
    put_ref(<char *>&a.scratch, values["scratch"], bases)
    a.thread_bytes, a.lines, a.bands = values["thread_bytes"], values["lines"], values["bands"]
    a.count = len(values["stages"])
    for i, (kernel, fields, lines, buffer) in enumerate(values["stages"]):
        entry = find_kernel(isa, kernel)
        if not pf_strips_take(entry.kind):
            raise ValueError(f"kernel {kernel!r} cannot be a stage of a chain")
        s = <pf_strip_stage *>(<char *>a.stages + i * sizeof(pf_strip_stage))
        s.run, s.kind, s.lines, s.buffer = entry.run, entry.kind, lines, buffer
        pack(entry.kind, fields, <char *>&s.args, bases)
    return 0


cdef int64_t arguments_size(str kernel, dict values) except -1:
    if kernel == "native":
        return native_size(values)
    if kernel == "strips":
        return strips_size(values)
    return pf_kinds()[tables[0].entries[<int>places[kernel]].kind].size


def plan(str isa, str kernel, dict values, int nthreads):
    """Ask a planned kernel for (variant, packed bytes, scratch bytes, label) for the given arguments.

    The fifth result are the fields of arguments that are the kernel's choice: where it has them, the variant and into
    how many parts the work is cut. They need not be given.
    """
    cdef const pf_kernel_entry *entry = find_kernel(isa, kernel)
    cdef pf_plan result
    if entry.plan == NULL:
        raise KeyError(f"kernel {kernel!r} has no plan")
    unknown = {"variant": -1, "chunks": 0}
    cdef list chosen = [name for name in unknown if name in names_of(entry.kind)]
    values = {**{name: unknown[name] for name in chosen}, **values}
    cdef char *args = <char *>malloc(pf_kinds()[entry.kind].size)
    if args == NULL:
        raise MemoryError
    try:
        pack(entry.kind, values, args, bounds(0, 0))
        memset(&result, 0, sizeof(result))
        entry.plan(args, nthreads, &result)
    finally:
        free(args)
    told = {"variant": result.variant, "chunks": result.chunks}
    fields = {name: told[name] for name in chosen}
    return result.variant, result.packed_bytes, result.scratch_bytes, result.label.decode(), fields


cdef object raise_fault(pf_fault fault, int64_t begin):
    if fault.code == PF_FAULT_NATIVE:
        raise NativeOperatorError(fault.value, step=begin + fault.step)
    if fault.code == PF_FAULT_ZERO:
        raise ExpressionError("integer division by zero", step=begin + fault.step)
    if fault.code:
        raise IndexRangeError(fault.value, fault.limit, step=begin + fault.step)


@no_gc_clear  # what a run that began still needs is let go after it ended
cdef class Program:
    """An immutable list of kernel calls.

    Parameters
    ----------
    isa : str
        Level whose kernels are used, one of ``ISAS``.
    steps : list of (kernel, values, serial, free)
        ``values`` maps field names to ints, floats, tuples and references ``(base, offset)``. The kernel "native"
        is a user's function: values run and state are addresses, which ``keep`` keeps alive. "strips" is a chain
        of convolutions and pools.
    nbases : int
        Number of base pointers that a run passes after base 0.
    nthreads : int
        Size of the thread team.
    absolute : bool
        Whether references may hold addresses (base 0); not those that come from a file.
    ahead : dict, optional
        For numbers of steps, memory (address, bytes) that is worth fetching meanwhile.
    """
    cdef pf_step *steps
    cdef char *args
    cdef int64_t count
    cdef int nbases
    cdef int nthreads
    cdef list keep
    cdef pf_pending *pending
    cdef object memory

    def __cinit__(self, str isa, list steps, int nbases, int nthreads, bint absolute=True, dict ahead=None):
        cdef int64_t total = 0, at = 0, i = 0
        cdef bint gang
        cdef const pf_kernel_entry *entry
        cdef bounds bases = bounds(0 if absolute else 1, nbases)
        if not 1 <= nthreads <= PF_MOST_THREADS:
            raise ValueError(f"{nthreads} threads, where 1 to {PF_MOST_THREADS} can work together")
        self.count = len(steps)
        self.nbases = nbases
        self.nthreads = nthreads
        self.keep = []
        for kernel, values, _serial, _isfree in steps:
            total += arguments_size(kernel, values)
        self.steps = <pf_step *>calloc(self.count + 1, sizeof(pf_step))
        self.args = <char *>calloc(total + 1, 1)
        if self.steps == NULL or self.args == NULL:
            raise MemoryError
        for kernel, values, serial, isfree in steps:
            self.steps[i].args = self.args + at
            gang = False
            self.steps[i].free = isfree
            if kernel == "native":
                if not absolute:
                    raise ValueError("a file cannot hold a user's function")
                pack_native(values, self.args + at, bases)
                self.steps[i].run = <pf_kernel_fn>pf_native_step
                gang = True
                self.keep.append(values["keep"])
            elif kernel == "strips":
                pack_strips(isa, values, self.args + at, bases)
                self.steps[i].run = <pf_kernel_fn>pf_strips_step
            else:
                entry = find_kernel(isa, kernel)
                pack(entry.kind, values, self.args + at, bases)
                self.steps[i].run = entry.run
                gang = pf_is_gang(places[kernel], entry, self.args + at, nthreads)
            self.steps[i].mode = PF_STEP_SERIAL if serial else PF_STEP_GANG if gang else PF_STEP_TEAM
            at += arguments_size(kernel, values)
            i += 1
        for step, (address, nbytes) in (ahead or {}).items():
            if not 0 <= step < self.count:
                raise ValueError(f"there is no step {step}")
            self.steps[<int64_t>step].ahead.start = <const char *><uintptr_t>address
            self.steps[<int64_t>step].ahead.bytes = nbytes

    def __dealloc__(self):
        cdef pf_fault fault
        if self.pending != NULL:
            with nogil:
                pf_end_steps(self.pending, &fault)
        free(self.steps)
        free(self.args)

    def __len__(self):
        return self.count

    def run(self, tuple bases, int64_t begin=0, int64_t end=-1, bint timed=False):
        """Run steps [begin, end) without holding the GIL; bases are contiguous buffers.

        Returns None, or the list of end-begin+1 time stamps in nanoseconds when ``timed``. Raises NativeOperatorError,
        ExpressionError (an integer divided by zero) or IndexRangeError with the number of the step.
        """
        cdef char *local[64]
        cdef char **pointers = local
        cdef int64_t *clock = NULL
        cdef int64_t n
        cdef pf_fault fault
        cdef Py_buffer view
        cdef int i, status, threads = 1
        if end < 0:
            end = self.count
        if len(bases) != self.nbases or begin < 0 or end > self.count or begin > end:
            raise ValueError("wrong number of bases or step range")
        n = end - begin
        if self.nbases + 1 > 64:
            pointers = <char **>malloc((self.nbases + 1) * sizeof(char *))
            if pointers == NULL:
                raise MemoryError
        try:
            pointers[0] = NULL
            for i in range(self.nbases):
                # The tuple keeps the objects alive, so the memory stays when the view is given back.
                PyObject_GetBuffer(bases[i], &view, PyBUF_SIMPLE)
                pointers[i + 1] = <char *>view.buf
                PyBuffer_Release(&view)
            if timed:
                clock = <int64_t *>malloc((n + 1) * sizeof(int64_t))
                if clock == NULL:
                    raise MemoryError
            with nogil:
                # Waking the team for work that one thread does anyway would cost more than the work.
                for i in range(n):
                    if self.steps[begin + i].mode != PF_STEP_SERIAL:
                        threads = self.nthreads
                        break
                status = pf_run_steps(self.steps + begin, n, pointers, threads, clock, &fault)
            if status:
                raise MemoryError
            raise_fault(fault, begin)
            return [clock[i] for i in range(n + 1)] if timed else None
        finally:
            if pointers != local:
                free(pointers)
            free(clock)

    def begin(self, memory):
        """Let helpers of the team run all steps, which must be free, from now on; one thread calls ``finish`` then."""
        cdef bint fit = self.nbases == 0 and self.pending == NULL
        for i in range(self.count):
            fit = fit and self.steps[i].free and self.steps[i].mode != PF_STEP_GANG
        if not fit:
            raise ValueError("steps depend on each other or on bases, or run already")
        self.memory = memory
        self.pending = pf_begin_steps(self.steps, self.count, self.nthreads)

    def over(self):
        """Whether helpers have done all that ``begin`` asked for."""
        return self.pending != NULL and pf_steps_over(self.pending)

    def finish(self):
        """Take part in what ``begin`` asked for until it is done; raises as ``run`` does."""
        cdef pf_fault fault
        cdef int status = -1
        cdef pf_pending *run = self.pending
        self.pending = NULL
        if run != NULL:
            with nogil:
                status = pf_end_steps(run, &fault)
        if status == 0:
            raise_fault(fault, 0)
        else:
            self.run(())
        self.memory = None
