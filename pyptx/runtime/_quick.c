/* Launches of kernels whose arguments differ from those of an earlier launch in addresses and numbers alone.
 *
 * The twin of pyptx/entry/signatures.py and pyptx/runtime/plan.py for torch tensors: Table.call() reads the arguments
 * through torch's DLPack exchange API, compares them with the signatures that it knows, and calls cuLaunchKernelEx.
 * Whatever is unusual, a failed launch included, returns MISS; the Python path then says what is wrong.
 *
 * One extension serves every Python from 3.10 on (limited API).
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* --- the binary interfaces of others ------------------------------------------------------------------------- */

/* DLPack 1.x, https://dmlc.github.io/dlpack/latest/c_api.html */
typedef struct { int32_t type, id; } Device;
typedef struct { uint8_t code, bits; uint16_t lanes; } DataType;
typedef struct {
    void *data;
    Device device;
    int32_t ndim;
    DataType dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} Tensor;
typedef struct {
    struct { uint32_t major, minor; } version;
    void *previous;
    void *allocator, *managed_from_object, *managed_to_object;
    int (*tensor_from_object)(void *, Tensor *);
    int (*current_stream)(int32_t, int32_t, void **);
} ExchangeApi;
enum { CUDA = 2, FLOAT = 2, BFLOAT = 4, COMPLEX = 5 };

/* CUlaunchConfig of cuda.h */
typedef struct {
    unsigned int grid[3], block[3], shared;
    void *stream, *attributes;
    unsigned int attribute_count;
} Config;
typedef int (*LaunchKernelEx)(const Config *, void *, void **, void **);
typedef int (*StreamIsCapturing)(void *, int *);

/* --- a launch that is ready ---------------------------------------------------------------------------------- */

enum { MOST_PARAMETERS = 64, ROOM = 128, MOST_ENTRIES = 64, MOST_DIMS = 32 };
/* Kinds of parameters: a CONSTANT has its value in the image, a number comes from the call. */
enum { ADDRESS, MAP, CONSTANT, UNSIGNED, SIGNED, SINGLE, DOUBLE };

typedef struct {
    int kind, bits, place;
    unsigned char image[ROOM];
} Parameter;

typedef struct {
    PyObject_HEAD
    LaunchKernelEx launch;
    StreamIsCapturing is_capturing;
    void *function;
    Config config;
    int device, count;
    Parameter *parameters;
    PyObject *captured; /* a bytearray: its byte is 1 once a capture has seen a launch */
    PyObject *keep;     /* what config.attributes and function live in */
} Entry;

typedef union {
    uint64_t word;
    int64_t whole;
    double wide;
    float narrow;
} Value;

/* Encode a Python number. Returns 0 if it is of another type, or does not fit. */
static int encode(PyObject *number, const Parameter *parameter, Value *value)
{
    value->word = 0;
    if (parameter->kind == SINGLE || parameter->kind == DOUBLE) {
        if (!PyFloat_Check(number))
            return 0;
        double wide = PyFloat_AsDouble(number);
        if (parameter->kind == DOUBLE) {
            value->wide = wide;
            return 1;
        }
        value->narrow = (float)wide;
        /* A finite number that float cannot hold is an error of the caller. */
        return wide - wide != 0.0 || value->narrow - value->narrow == 0.0f;
    }
    if (!PyLong_CheckExact(number))
        return 0;
    if (parameter->kind == UNSIGNED && parameter->bits == 64) {
        value->word = PyLong_AsUnsignedLongLong(number);
        if (!PyErr_Occurred())
            return 1;
        PyErr_Clear();
        return 0;
    }
    int overflow = 0;
    long long whole = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow || (whole == -1 && PyErr_Occurred())) {
        PyErr_Clear();
        return 0;
    }
    if (parameter->bits < 64) {
        long long least = parameter->kind == SIGNED ? -(1LL << (parameter->bits - 1)) : 0;
        long long most = (1LL << (parameter->bits - (parameter->kind == SIGNED))) - 1;
        if (whole < least || whole > most)
            return 0;
    }
    value->whole = whole;
    return 1;
}

/* Lay out the parameters at memory, of ROOM bytes each on a multiple of 64. */
static void lay(const Entry *entry, const Value *values, unsigned char *memory, void **pointers)
{
    for (int n = 0; n < entry->count; n++) {
        const Parameter *parameter = &entry->parameters[n];
        unsigned char *here = memory + (size_t)n * ROOM;
        if (parameter->kind == MAP || parameter->kind == CONSTANT)
            memcpy(here, parameter->image, ROOM);
        if (parameter->kind != CONSTANT)
            memcpy(here, &values[parameter->place], sizeof(Value));
        pointers[n] = here;
    }
}

/* The functions of the last launches, in the order of their calls: what an error of a kernel may mean. */
enum { RECENT = 32 };
static void *recent[RECENT];
static unsigned long long launches;

static int enqueue(const Entry *entry, void **pointers, void *stream)
{
    Config config = entry->config;
    int status;
    config.stream = stream;
    Py_BEGIN_ALLOW_THREADS
    status = entry->launch(&config, entry->function, pointers, NULL);
    Py_END_ALLOW_THREADS
    if (status != 0)
        return status;
    recent[launches++ % RECENT] = entry->function;
    int capturing = 0;
    /* The default stream cannot be captured. If the driver does not say, a capture may have seen it. */
    if (stream != NULL && (entry->is_capturing(stream, &capturing) != 0 || capturing != 0))
        *PyByteArray_AsString(entry->captured) = 1;
    return 0;
}

/* note_launch(function): remember a launch that Python made. */
static PyObject *note_launch(PyObject *module, PyObject *function)
{
    (void)module;
    unsigned long long handle = PyLong_AsUnsignedLongLong(function);
    if (handle == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    recent[launches++ % RECENT] = (void *)(uintptr_t)handle;
    Py_RETURN_NONE;
}

/* recent_launches(): the handles of the functions that were launched last, the newest first. */
static PyObject *recent_launches(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    unsigned long long kept = launches < RECENT ? launches : RECENT;
    PyObject *found = PyTuple_New((Py_ssize_t)kept);
    for (unsigned long long n = 0; found != NULL && n < kept; n++) {
        PyObject *handle = PyLong_FromUnsignedLongLong((uintptr_t)recent[(launches - 1 - n) % RECENT]);
        if (handle == NULL || PyTuple_SetItem(found, (Py_ssize_t)n, handle) < 0) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

/* Entry(launch, is_capturing, function, config, device, parameters, captured, keep): the addresses of the driver's
 * functions, the kernel's handle, and parameters as (kind, bits, place, image or None). */
static PyObject *entry_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    unsigned long long launch, is_capturing, function;
    const char *config;
    Py_ssize_t size;
    int device;
    PyObject *parameters, *captured, *keep;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "KKKy#iO!O!O", &launch, &is_capturing, &function, &config, &size, &device,
                          &PyTuple_Type, &parameters, &PyByteArray_Type, &captured, &keep))
        return NULL;
    Py_ssize_t count = PyTuple_Size(parameters);
    if (size != (Py_ssize_t)sizeof(Config) || count > MOST_PARAMETERS || PyByteArray_Size(captured) < 1) {
        PyErr_SetString(PyExc_ValueError, "another CUlaunchConfig than expected, too many parameters, or no byte");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Entry *entry = (Entry *)allocate(type, 0);
    if (entry == NULL)
        return NULL;
    entry->launch = (LaunchKernelEx)(uintptr_t)launch;
    entry->is_capturing = (StreamIsCapturing)(uintptr_t)is_capturing;
    entry->function = (void *)(uintptr_t)function;
    memcpy(&entry->config, config, sizeof(Config));
    entry->device = device;
    entry->parameters = PyMem_Calloc((size_t)count + 1, sizeof(Parameter));
    if (entry->parameters == NULL) {
        Py_DECREF(entry);
        return PyErr_NoMemory();
    }
    Py_INCREF(entry->captured = captured);
    Py_INCREF(entry->keep = keep);
    for (Py_ssize_t n = 0; n < count; n++) {
        Parameter *parameter = &entry->parameters[n];
        const char *image = NULL;
        Py_ssize_t length = 0;
        if (!PyArg_ParseTuple(PyTuple_GetItem(parameters, n), "iiiz#", &parameter->kind, &parameter->bits,
                              &parameter->place, &image, &length)) {
            Py_DECREF(entry);
            return NULL;
        }
        if (parameter->place < 0 || parameter->place >= MOST_PARAMETERS || length > ROOM) {
            Py_DECREF(entry);
            PyErr_SetString(PyExc_ValueError, "a parameter's place or tensor map is wrong");
            return NULL;
        }
        if (image)
            memcpy(parameter->image, image, (size_t)length);
        entry->count++;
    }
    return (PyObject *)entry;
}

/* Entry.resized(grid, changed): the launch with another grid; changed are pairs (parameter, image). */
static PyObject *entry_resized(Entry *entry, PyObject *arguments)
{
    unsigned int grid[3];
    PyObject *changed;
    if (!PyArg_ParseTuple(arguments, "(III)O!", &grid[0], &grid[1], &grid[2], &PyTuple_Type, &changed))
        return NULL;
    PyTypeObject *type = Py_TYPE(entry);
    Entry *other = (Entry *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (other == NULL)
        return NULL;
    other->launch = entry->launch;
    other->is_capturing = entry->is_capturing;
    other->function = entry->function;
    other->config = entry->config;
    memcpy(other->config.grid, grid, sizeof grid);
    other->device = entry->device;
    other->parameters = PyMem_Calloc((size_t)entry->count + 1, sizeof(Parameter));
    if (other->parameters == NULL) {
        Py_DECREF(other);
        return PyErr_NoMemory();
    }
    memcpy(other->parameters, entry->parameters, (size_t)entry->count * sizeof(Parameter));
    other->count = entry->count;
    Py_INCREF(other->captured = entry->captured);
    Py_INCREF(other->keep = entry->keep);
    for (Py_ssize_t n = 0; n < PyTuple_Size(changed); n++) {
        int number;
        const char *image;
        Py_ssize_t length;
        if (!PyArg_ParseTuple(PyTuple_GetItem(changed, n), "iy#", &number, &image, &length)) {
            Py_DECREF(other);
            return NULL;
        }
        if (number < 0 || number >= other->count || length > ROOM) {
            Py_DECREF(other);
            PyErr_SetString(PyExc_ValueError, "there is no such parameter, or its image is too long");
            return NULL;
        }
        memcpy(other->parameters[number].image, image, (size_t)length);
    }
    return (PyObject *)other;
}

static void entry_free(Entry *entry)
{
    PyTypeObject *type = Py_TYPE(entry);
    PyMem_Free(entry->parameters);
    Py_XDECREF(entry->captured);
    Py_XDECREF(entry->keep);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(entry);
    Py_DECREF(type);
}

/* --- torch --------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject *tensor, *parameter; /* the types */
    PyObject *grad_enabled;
    PyObject *forward_ad, *dispatch_modes; /* the module; function that counts the modes that get each operator */
    PyObject *tracing_state;               /* function: None unless torch.jit.trace runs */
    PyObject *current_level, *device, *index, *is_inference; /* names */
    PyObject *increment_version; /* function of a tuple of tensors that were written */
    PyObject *requires_grad, *is_neg, *cuda_stream; /* names */
    const ExchangeApi *api;
} Torch;

/* Read a tensor. Returns 0 if the full checks must look at it. */
static int read_tensor(const Torch *torch, PyObject *object, Tensor *tensor)
{
    PyObject *type = (PyObject *)Py_TYPE(object);
    if (type != torch->tensor && type != torch->parameter)
        return 0;
    if (torch->api->tensor_from_object(object, tensor) != 0) {
        PyErr_Clear();
        return 0;
    }
    if (tensor->device.type != CUDA || tensor->data == NULL || tensor->byte_offset != 0)
        return 0;
    if (tensor->dtype.code == COMPLEX)
        return 0;
    int64_t step = 1;
    for (int axis = tensor->ndim; axis-- > 0;) {
        if (tensor->shape[axis] == 0)
            return 0;
        if (tensor->strides != NULL && tensor->shape[axis] != 1 && tensor->strides[axis] != step)
            return 0;
        step *= tensor->shape[axis];
    }
    PyObject *answer = PyObject_GetAttr(object, torch->requires_grad);
    int plain = answer == Py_False;
    Py_XDECREF(answer);
    if (!plain && answer != NULL) {
        answer = PyObject_CallObject(torch->grad_enabled, NULL);
        plain = answer == Py_False;
        Py_XDECREF(answer);
    }
    if (plain && (tensor->dtype.code == FLOAT || tensor->dtype.code == BFLOAT)) {
        answer = PyObject_CallMethodObjArgs(object, torch->is_neg, NULL);
        plain = answer == Py_False;
        Py_XDECREF(answer);
    }
    if (PyErr_Occurred())
        PyErr_Clear();
    return plain;
}

/* --- the signatures of a kernel ------------------------------------------------------------------------------ */

typedef struct {
    DataType dtype;
    Device device;
    int32_t ndim;
    int64_t *shape;
} Expected;

typedef struct {
    int given, count;       /* number of inputs, and of inputs and outputs that the caller gives */
    Expected *arrays;       /* for each of count; of numbers, the ndim is -1 */
    Entry *entry;
    PyObject *allocators;   /* tuple of functions of the inputs, or an empty tuple */
    PyObject *sizes;        /* function of the dims that returns (entry, allocators) or None; or NULL */
} Signature;

typedef struct {
    PyObject_HEAD
    Torch torch;
    PyObject *miss;
    int parameters, dims;
    unsigned char is_array[MOST_PARAMETERS];
    int rank[MOST_PARAMETERS];
    int64_t *shape[MOST_PARAMETERS]; /* of the spec: an extent, or -1 minus the number of a dim */
    int count, next, last;
    Signature signatures[MOST_ENTRIES];
} Table;

static void clear_signature(Signature *signature)
{
    if (signature->arrays != NULL)
        for (int n = 0; n < signature->count; n++)
            PyMem_Free(signature->arrays[n].shape);
    PyMem_Free(signature->arrays);
    Py_CLEAR(signature->entry);
    Py_CLEAR(signature->allocators);
    Py_CLEAR(signature->sizes);
    memset(signature, 0, sizeof *signature);
}

/* Read the spec of each parameter: a tuple of extents, and of -1 minus the number of a dim; or None. */
static int read_specs(Table *table, PyObject *specs)
{
    for (int n = 0; n < table->parameters; n++) {
        PyObject *spec = PyTuple_GetItem(specs, n);
        if (!PyTuple_CheckExact(spec))
            continue;
        table->is_array[n] = 1;
        table->rank[n] = (int)PyTuple_Size(spec);
        table->shape[n] = PyMem_Calloc((size_t)table->rank[n] + 1, sizeof(int64_t));
        if (table->shape[n] == NULL)
            return PyErr_NoMemory() != NULL;
        for (int axis = 0; axis < table->rank[n]; axis++) {
            int64_t extent = PyLong_AsLongLong(PyTuple_GetItem(spec, axis));
            if (extent == -1 && PyErr_Occurred())
                return 0;
            table->shape[n][axis] = extent;
            if (-extent > table->dims)
                table->dims = (int)-extent;
        }
    }
    return 1;
}

/* True if no dispatch mode records operators, and no tangents are followed: a launch would be invisible to both. */
static int is_plain(const Torch *torch)
{
    PyObject *level = PyObject_GetAttr(torch->forward_ad, torch->current_level);
    int plain = level != NULL && PyLong_AsLong(level) < 0;
    Py_XDECREF(level);
    if (plain) {
        PyObject *modes = PyObject_CallNoArgs(torch->dispatch_modes);
        plain = modes != NULL && PyLong_AsLong(modes) == 0;
        Py_XDECREF(modes);
    }
    if (plain) {
        PyObject *state = PyObject_CallNoArgs(torch->tracing_state);
        plain = state == Py_None;
        Py_XDECREF(state);
    }
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return plain;
}

/* Table(Tensor, Parameter, is_grad_enabled, forward_ad, dispatch_modes, tracing_state, increment_version, exchange_api,
 * specs, miss) */
static PyObject *table_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *tensor, *parameter, *grad_enabled, *forward_ad, *dispatch_modes, *tracing_state, *increment_version;
    PyObject *capsule, *specs, *miss;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOO!O", &tensor, &parameter, &grad_enabled, &forward_ad, &dispatch_modes,
                          &tracing_state, &increment_version, &capsule, &PyTuple_Type, &specs, &miss))
        return NULL;
    Py_ssize_t parameters = PyTuple_Size(specs);
    const ExchangeApi *api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (api == NULL)
        return NULL;
    if (api->version.major != 1 || api->tensor_from_object == NULL || api->current_stream == NULL ||
        parameters > MOST_PARAMETERS) {
        PyErr_SetString(PyExc_ValueError, "another DLPack exchange API than version 1, or too many parameters");
        return NULL;
    }
    Table *table = (Table *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (table == NULL)
        return NULL;
    Torch *torch = &table->torch;
    Py_INCREF(torch->tensor = tensor);
    Py_INCREF(torch->parameter = parameter);
    Py_INCREF(torch->grad_enabled = grad_enabled);
    Py_INCREF(torch->forward_ad = forward_ad);
    Py_INCREF(torch->dispatch_modes = dispatch_modes);
    Py_INCREF(torch->tracing_state = tracing_state);
    Py_INCREF(torch->increment_version = increment_version);
    torch->current_level = PyUnicode_InternFromString("_current_level");
    torch->device = PyUnicode_InternFromString("device");
    torch->index = PyUnicode_InternFromString("index");
    torch->is_inference = PyUnicode_InternFromString("is_inference");
    Py_INCREF(table->miss = miss);
    torch->api = api;
    torch->requires_grad = PyUnicode_InternFromString("requires_grad");
    torch->is_neg = PyUnicode_InternFromString("is_neg");
    torch->cuda_stream = PyUnicode_InternFromString("cuda_stream");
    table->parameters = (int)parameters;
    if (!read_specs(table, specs)) {
        Py_DECREF(table);
        return NULL;
    }
    return (PyObject *)table;
}

static void table_free(Table *table)
{
    PyTypeObject *type = Py_TYPE(table);
    Torch *torch = &table->torch;
    for (int n = 0; n < table->count; n++)
        clear_signature(&table->signatures[n]);
    for (int n = 0; n < table->parameters; n++)
        PyMem_Free(table->shape[n]);
    Py_XDECREF(torch->tensor);
    Py_XDECREF(torch->parameter);
    Py_XDECREF(torch->grad_enabled);
    Py_XDECREF(torch->forward_ad);
    Py_XDECREF(torch->dispatch_modes);
    Py_XDECREF(torch->tracing_state);
    Py_XDECREF(torch->increment_version);
    Py_XDECREF(torch->current_level);
    Py_XDECREF(torch->device);
    Py_XDECREF(torch->index);
    Py_XDECREF(torch->is_inference);
    Py_XDECREF(torch->requires_grad);
    Py_XDECREF(torch->is_neg);
    Py_XDECREF(torch->cuda_stream);
    Py_XDECREF(table->miss);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(table);
    Py_DECREF(type);
}

typedef struct {
    PyObject *objects[MOST_PARAMETERS]; /* borrowed */
    int given, count;
} Arguments;

/* The arguments of a call: its inputs, then its outputs. Returns 0 if there are too many, or out is empty. */
static int gather(const Table *table, PyObject *given, PyObject *out, Arguments *found)
{
    found->given = found->count = 0;
    if (!PyTuple_CheckExact(given) || PyTuple_Size(given) > table->parameters)
        return 0;
    found->given = found->count = (int)PyTuple_Size(given);
    for (int n = 0; n < found->given; n++)
        found->objects[n] = PyTuple_GetItem(given, n);
    if (out == Py_None)
        return 1;
    if (!PyTuple_CheckExact(out)) {
        if (found->count == table->parameters)
            return 0;
        found->objects[found->count++] = out;
        return 1;
    }
    Py_ssize_t more = PyTuple_Size(out);
    if (more == 0 || more > table->parameters - found->count)
        return 0;
    for (Py_ssize_t n = 0; n < more; n++)
        found->objects[found->count++] = PyTuple_GetItem(out, n);
    return 1;
}

static int has_kind(const Tensor *tensor, const Expected *expected)
{
    return memcmp(&tensor->dtype, &expected->dtype, sizeof(DataType)) == 0 &&
           memcmp(&tensor->device, &expected->device, sizeof(Device)) == 0;
}

static int has_shape(const Tensor *tensor, const Expected *expected)
{
    return tensor->ndim == expected->ndim &&
           memcmp(tensor->shape, expected->shape, (size_t)tensor->ndim * sizeof(int64_t)) == 0;
}

/* What a call needs of a signature. The references are owned: other threads may replace the signature meanwhile. */
typedef struct {
    Entry *entry;
    PyObject *allocators;
} Launch;

static Launch of_signature(const Signature *signature)
{
    Py_INCREF(signature->entry);
    Py_INCREF(signature->allocators);
    return (Launch){signature->entry, signature->allocators};
}

/* Keep a launch for arguments like these. Steals the references. Returns 0 with an error. */
static int keep(Table *table, const Arguments *found, const Tensor *tensors, PyObject *entry,
                       PyObject *allocators, PyObject *sizes)
{
    Signature made = {found->given, found->count, NULL, (Entry *)entry, allocators, sizes};
    made.arrays = PyMem_Calloc((size_t)found->count + 1, sizeof(Expected));
    if (made.arrays == NULL) {
        clear_signature(&made);
        PyErr_NoMemory();
        return 0;
    }
    for (int n = 0; n < found->count; n++) {
        if (!table->is_array[n])
            continue;
        size_t bytes = (size_t)tensors[n].ndim * sizeof(int64_t);
        made.arrays[n] = (Expected){tensors[n].dtype, tensors[n].device, tensors[n].ndim, NULL};
        made.arrays[n].shape = PyMem_Calloc(1, bytes + 1);
        if (made.arrays[n].shape == NULL) {
            clear_signature(&made);
            PyErr_NoMemory();
            return 0;
        }
        memcpy(made.arrays[n].shape, tensors[n].shape, bytes);
    }
    Signature old = table->signatures[table->next];
    table->signatures[table->next] = made;
    table->last = table->next;
    table->next = (table->next + 1) % MOST_ENTRIES;
    table->count += table->count < MOST_ENTRIES;
    clear_signature(&old); /* last: it may run Python */
    return 1;
}

/* Table.add(given, out, entry, allocators, sizes): keep a launch for calls with arguments like these, and how launches
 * for other sizes are made, or None. False if it cannot. */
static PyObject *table_add(Table *table, PyObject *const *arguments, Py_ssize_t count)
{
    Arguments found;
    Tensor tensors[MOST_PARAMETERS];
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "add takes given, out, entry, allocators, sizes");
        return NULL;
    }
    if (!gather(table, arguments[0], arguments[1], &found))
        Py_RETURN_FALSE;
    for (int n = 0; n < found.count; n++)
        if (table->is_array[n] && !read_tensor(&table->torch, found.objects[n], &tensors[n]))
            Py_RETURN_FALSE;
    Py_INCREF(arguments[2]);
    Py_INCREF(arguments[3]);
    PyObject *sizes = arguments[4] == Py_None ? NULL : arguments[4];
    Py_XINCREF(sizes);
    if (!keep(table, &found, tensors, arguments[2], arguments[3], sizes))
        return NULL;
    Py_RETURN_TRUE;
}

/* The values of the dims, by which shapes fit the specs. Returns None if they do not; NULL with an error. */
static PyObject *extents_of(const Table *table, const Arguments *found, const Tensor *tensors)
{
    int64_t dims[MOST_DIMS] = {0};
    if (table->dims > MOST_DIMS)
        Py_RETURN_NONE;
    for (int n = 0; n < found->count; n++) {
        if (!table->is_array[n])
            continue;
        if (tensors[n].ndim != table->rank[n])
            Py_RETURN_NONE;
        for (int axis = 0; axis < table->rank[n]; axis++) {
            int64_t spec = table->shape[n][axis], extent = tensors[n].shape[axis];
            if (spec < 0 && dims[-1 - spec] == 0)
                dims[-1 - spec] = extent;
            if (extent != (spec < 0 ? dims[-1 - spec] : spec))
                Py_RETURN_NONE;
        }
    }
    PyObject *extents = PyTuple_New(table->dims);
    for (int n = 0; extents != NULL && n < table->dims; n++) {
        PyObject *extent = dims[n] == 0 ? NULL : PyLong_FromLongLong(dims[n]);
        if (extent == NULL) {
            Py_CLEAR(extents);
            if (PyErr_Occurred())
                return NULL;
            Py_RETURN_NONE; /* the arrays do not determine the dim */
        }
        PyTuple_SetItem(extents, n, extent);
    }
    return extents;
}

/* Make a launch for sizes that were never seen, and keep it. Steals sizes. Returns 0 if there is none. */
static int resize(Table *table, PyObject *sizes, const Arguments *found, const Tensor *tensors, Launch *launch)
{
    int done = 0;
    PyObject *made = NULL, *extents = extents_of(table, found, tensors);
    if (extents != NULL && extents != Py_None)
        made = PyObject_CallFunctionObjArgs(sizes, extents, NULL);
    if (made != NULL && made != Py_None) {
        *launch = (Launch){(Entry *)PyTuple_GetItem(made, 0), PyTuple_GetItem(made, 1)};
        Py_INCREF(launch->entry);
        Py_INCREF(launch->allocators);
        Py_INCREF(launch->entry); /* two of each: for the caller, and for the table */
        Py_INCREF(launch->allocators);
        Py_INCREF(sizes);
        done = keep(table, found, tensors, (PyObject *)launch->entry, launch->allocators, sizes);
        if (!done) {
            Py_DECREF(launch->entry);
            Py_DECREF(launch->allocators);
        }
    }
    Py_XDECREF(made);
    Py_XDECREF(extents);
    Py_DECREF(sizes);
    if (!done && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return done;
}

/* The launch for tensors that were read: the one of the last call first, else a new one for their sizes. Returns 0 if
 * there is none. */
static int find(Table *table, const Arguments *given, const Tensor *tensors, Launch *launch)
{
    PyObject *sizes = NULL;
    for (int turn = 0; turn < table->count; turn++) {
        int number = (table->last + turn) % table->count;
        const Signature *signature = &table->signatures[number];
        if (signature->given != given->given || signature->count != given->count)
            continue;
        int like = 1, same = 1;
        for (int n = 0; like && n < given->count; n++) {
            if (!table->is_array[n])
                continue;
            same = same && has_shape(&tensors[n], &signature->arrays[n]);
            like = (same || signature->sizes != NULL) && has_kind(&tensors[n], &signature->arrays[n]);
        }
        if (like && same) {
            table->last = number;
            *launch = of_signature(signature);
            return 1;
        }
        if (like && sizes == NULL)
            sizes = signature->sizes;
    }
    if (sizes == NULL)
        return 0;
    Py_INCREF(sizes);
    return resize(table, sizes, given, tensors, launch);
}

/* True if an object with a device names another GPU than this one. */
static int is_elsewhere(const Torch *torch, PyObject *stream, int device)
{
    int elsewhere = 0;
    PyObject *place = PyObject_GetAttr(stream, torch->device);
    PyObject *index = place == NULL ? NULL : PyObject_GetAttr(place, torch->index);
    if (index != NULL && PyLong_CheckExact(index))
        elsewhere = PyLong_AsLong(index) != device;
    Py_XDECREF(index);
    Py_XDECREF(place);
    PyErr_Clear(); /* a stream that names no device */
    return elsewhere;
}

/* The handle of a stream: None is torch's current one. Returns 0 for other objects than torch's and integers, and for
 * streams of another GPU. */
static int stream_of(const Torch *torch, PyObject *stream, int device, void **handle)
{
    if (stream == Py_None) {
        if (torch->api->current_stream(CUDA, device, handle) == 0)
            return 1;
        PyErr_Clear();
        return 0;
    }
    if (!PyLong_CheckExact(stream) && is_elsewhere(torch, stream, device))
        return 0;
    PyObject *number = PyLong_CheckExact(stream) ? (Py_INCREF(stream), stream)
                                                 : PyObject_GetAttr(stream, torch->cuda_stream);
    int known = number != NULL && PyLong_CheckExact(number);
    if (known)
        *handle = PyLong_AsVoidPtr(number);
    Py_XDECREF(number);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return known;
}

/* Allocate the outputs, and read their addresses. Returns a tuple, or NULL with an error. */
static PyObject *allocate_outputs(const ExchangeApi *api, PyObject *allocators, PyObject *given, Value *values)
{
    Py_ssize_t count = PyTuple_Size(allocators);
    PyObject *outputs = PyTuple_New(count);
    for (Py_ssize_t n = 0; outputs != NULL && n < count; n++) {
        Tensor tensor;
        PyObject *made = PyObject_CallFunctionObjArgs(PyTuple_GetItem(allocators, n), given, NULL);
        if (made == NULL) {
            Py_CLEAR(outputs);
            break;
        }
        PyTuple_SetItem(outputs, n, made);
        if (api->tensor_from_object(made, &tensor) != 0) {
            Py_CLEAR(outputs);
            break;
        }
        values[n].word = (uint64_t)(uintptr_t)tensor.data;
    }
    return outputs;
}

/* What the kernel's call returns: None, the output, or a tuple of several. Steals the tuple. */
static PyObject *returned(PyObject *outputs)
{
    Py_ssize_t count = PyTuple_Size(outputs);
    if (count > 1)
        return outputs;
    PyObject *only = count == 1 ? PyTuple_GetItem(outputs, 0) : Py_None;
    Py_INCREF(only);
    Py_DECREF(outputs);
    return only;
}

/* Tell autograd that the kernel writes the caller's tensors: its outputs, or all of them if it has none. Tensors of
 * inference mode have no version. */
static void count_writes(const Table *table, const Arguments *found)
{
    int first = found->count > found->given ? found->given : 0, number = 0;
    PyObject *written[MOST_PARAMETERS];
    for (int n = first; n < found->count; n++) {
        if (!table->is_array[n])
            continue;
        PyObject *answer = PyObject_CallMethodObjArgs(found->objects[n], table->torch.is_inference, NULL);
        if (answer == Py_False)
            written[number++] = found->objects[n];
        Py_XDECREF(answer);
    }
    PyObject *all = number > 0 ? PyTuple_New(number) : NULL;
    for (int n = 0; all != NULL && n < number; n++) {
        Py_INCREF(written[n]);
        PyTuple_SetItem(all, n, written[n]);
    }
    if (all != NULL)
        Py_XDECREF(PyObject_CallFunctionObjArgs(table->torch.increment_version, all, NULL));
    Py_XDECREF(all);
    PyErr_Clear();
}

/* Launch with arguments that were read. Returns the outputs, or MISS. */
static PyObject *launch_with(const Table *table, const Launch *launch, PyObject *given, const Arguments *found,
                             Value *values, PyObject *stream)
{
    const Entry *entry = launch->entry;
    void *handle = NULL;
    for (int n = 0; n < entry->count; n++) {
        const Parameter *parameter = &entry->parameters[n];
        int number = parameter->kind >= UNSIGNED;
        if (number && !encode(found->objects[parameter->place], parameter, &values[parameter->place]))
            return Py_INCREF(table->miss), table->miss;
    }
    int allocates = PyTuple_Size(launch->allocators) > 0;
    /* Outputs for another stream than the current one need memory of that stream. */
    if ((allocates && stream != Py_None) || !stream_of(&table->torch, stream, entry->device, &handle))
        return Py_INCREF(table->miss), table->miss;
    PyObject *outputs;
    if (allocates) {
        outputs = allocate_outputs(table->torch.api, launch->allocators, given, values + found->count);
    } else {
        outputs = PyTuple_New(found->count - found->given);
        for (int n = found->given; outputs != NULL && n < found->count; n++) {
            Py_INCREF(found->objects[n]);
            PyTuple_SetItem(outputs, n - found->given, found->objects[n]);
        }
    }
    if (outputs == NULL)
        return NULL;
    unsigned char room[MOST_PARAMETERS * ROOM + 64];
    void *pointers[MOST_PARAMETERS];
    lay(entry, values, room + (64 - (uintptr_t)room % 64) % 64, pointers);
    if (enqueue(entry, pointers, handle) != 0) {
        Py_DECREF(outputs);
        return Py_INCREF(table->miss), table->miss;
    }
    if (!allocates)
        count_writes(table, found);
    return returned(outputs);
}

/* Table.call(given, out, stream): launch and return the outputs, or MISS. */
static PyObject *table_call(Table *table, PyObject *const *arguments, Py_ssize_t count)
{
    Arguments found;
    Tensor tensors[MOST_PARAMETERS];
    Value values[2 * MOST_PARAMETERS];
    Launch launch;
    uint64_t addresses = 0;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "call takes given, out, stream");
        return NULL;
    }
    /* A list may change while Python runs. */
    PyObject *out = PyList_CheckExact(arguments[1]) ? PyList_AsTuple(arguments[1]) : (Py_INCREF(arguments[1]), arguments[1]);
    if (out == NULL)
        return NULL;
    int known = table->count > 0 && is_plain(&table->torch) && gather(table, arguments[0], out, &found);
    for (int n = 0; known && n < found.count; n++) {
        if (!table->is_array[n])
            continue;
        known = read_tensor(&table->torch, found.objects[n], &tensors[n]);
        if (known) {
            values[n].word = (uint64_t)(uintptr_t)tensors[n].data;
            addresses |= values[n].word;
        }
    }
    PyObject *outputs = NULL;
    if (!known || addresses % 16 || !find(table, &found, tensors, &launch)) {
        if (!PyErr_Occurred()) /* such as KeyboardInterrupt, in a function of the author */
            Py_INCREF(outputs = table->miss);
    } else {
        outputs = launch_with(table, &launch, arguments[0], &found, values, arguments[2]);
        Py_DECREF(launch.entry);
        Py_DECREF(launch.allocators);
    }
    Py_DECREF(out);
    return outputs;
}

/* --- a prepared launch --------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    Torch torch; /* of which only the exchange API and the name of the handle are used */
    Entry *entry;
    unsigned char *room;
    void *pointers[MOST_PARAMETERS];
    PyObject *written; /* the tensors that each launch writes, for torch.increment_version; a tuple */
} Fixed;

/* Fixed(entry, exchange_api, values, increment_version, written): values are the numbers and addresses of the
 * arguments, by place; written is a tuple of tensors. */
static PyObject *fixed_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *entry, *capsule, *given, *increment_version, *written;
    Value values[MOST_PARAMETERS];
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "OOO!OO!", &entry, &capsule, &PyTuple_Type, &given, &increment_version,
                          &PyTuple_Type, &written))
        return NULL;
    const ExchangeApi *api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (api == NULL)
        return NULL;
    const Entry *launch = (Entry *)entry;
    for (int n = 0; n < launch->count; n++) {
        const Parameter *parameter = &launch->parameters[n];
        PyObject *value = parameter->place < PyTuple_Size(given) ? PyTuple_GetItem(given, parameter->place) : NULL;
        Parameter word = *parameter;
        if (word.kind == CONSTANT)
            continue;
        if (word.kind < UNSIGNED)
            word = (Parameter){.kind = UNSIGNED, .bits = 64};
        if (value == NULL || !encode(value, &word, &values[parameter->place])) {
            PyErr_SetString(PyExc_ValueError, "a value is missing, is of another type, or does not fit");
            return NULL;
        }
    }
    Fixed *fixed = (Fixed *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (fixed == NULL)
        return NULL;
    fixed->torch.api = api;
    fixed->torch.cuda_stream = PyUnicode_InternFromString("cuda_stream");
    fixed->torch.device = PyUnicode_InternFromString("device");
    fixed->torch.index = PyUnicode_InternFromString("index");
    Py_INCREF(fixed->torch.increment_version = increment_version);
    Py_INCREF(fixed->written = written);
    Py_INCREF(fixed->entry = (Entry *)entry);
    fixed->room = PyMem_Calloc(1, (size_t)launch->count * ROOM + 64);
    if (fixed->room == NULL) {
        Py_DECREF(fixed);
        return PyErr_NoMemory();
    }
    lay(launch, values, fixed->room + (64 - (uintptr_t)fixed->room % 64) % 64, fixed->pointers);
    return (PyObject *)fixed;
}

static void fixed_free(Fixed *fixed)
{
    PyTypeObject *type = Py_TYPE(fixed);
    PyMem_Free(fixed->room);
    Py_XDECREF(fixed->entry);
    Py_XDECREF(fixed->torch.cuda_stream);
    Py_XDECREF(fixed->torch.device);
    Py_XDECREF(fixed->torch.index);
    Py_XDECREF(fixed->torch.increment_version);
    Py_XDECREF(fixed->written);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(fixed);
    Py_DECREF(type);
}

/* Fixed.start(stream): True, or False if nothing was launched. */
static PyObject *fixed_start(Fixed *fixed, PyObject *stream)
{
    void *handle = NULL;
    if (!stream_of(&fixed->torch, stream, fixed->entry->device, &handle))
        Py_RETURN_FALSE;
    if (enqueue(fixed->entry, fixed->pointers, handle) != 0)
        Py_RETURN_FALSE;
    if (PyTuple_Size(fixed->written) > 0) {
        Py_XDECREF(PyObject_CallFunctionObjArgs(fixed->torch.increment_version, fixed->written, NULL));
        PyErr_Clear();
    }
    Py_RETURN_TRUE;
}

/* --- the module ---------------------------------------------------------------------------------------------- */

#define SLOT(name, function) {name, (void *)(uintptr_t)(function)}

static PyMethodDef entry_methods[] = {
    {"resized", (PyCFunction)(void (*)(void))entry_resized, METH_VARARGS, "The launch with another grid and images."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot entry_slots[] = {SLOT(Py_tp_new, entry_new), SLOT(Py_tp_dealloc, entry_free),
                                    {Py_tp_methods, entry_methods}, {0, NULL}};
static PyType_Spec entry_spec = {"pyptx.runtime._quick.Entry", sizeof(Entry), 0, Py_TPFLAGS_DEFAULT, entry_slots};

static PyMethodDef table_methods[] = {
    {"add", (PyCFunction)(void (*)(void))table_add, METH_FASTCALL, "Keep a launch for calls with such arguments."},
    {"call", (PyCFunction)(void (*)(void))table_call, METH_FASTCALL, "Launch, or return MISS."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot table_slots[] = {SLOT(Py_tp_new, table_new), SLOT(Py_tp_dealloc, table_free),
                                    {Py_tp_methods, table_methods}, {0, NULL}};
static PyType_Spec table_spec = {"pyptx.runtime._quick.Table", sizeof(Table), 0, Py_TPFLAGS_DEFAULT, table_slots};

static PyMethodDef fixed_methods[] = {
    {"start", (PyCFunction)(void (*)(void))fixed_start, METH_O, "Launch on a stream."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot fixed_slots[] = {SLOT(Py_tp_new, fixed_new), SLOT(Py_tp_dealloc, fixed_free),
                                    {Py_tp_methods, fixed_methods}, {0, NULL}};
static PyType_Spec fixed_spec = {"pyptx.runtime._quick.Fixed", sizeof(Fixed), 0, Py_TPFLAGS_DEFAULT, fixed_slots};

static int fill(PyObject *module)
{
    struct { const char *name; PyType_Spec *spec; } types[] = {
        {"Entry", &entry_spec}, {"Table", &table_spec}, {"Fixed", &fixed_spec}};
    for (size_t n = 0; n < sizeof types / sizeof *types; n++) {
        PyObject *type = PyType_FromSpec(types[n].spec);
        if (type == NULL || PyModule_AddObjectRef(module, types[n].name, type) < 0) {
            Py_XDECREF(type);
            return -1;
        }
        Py_DECREF(type);
    }
    struct { const char *name; int value; } constants[] = {
        {"ADDRESS", ADDRESS}, {"MAP", MAP}, {"CONSTANT", CONSTANT}, {"UNSIGNED", UNSIGNED}, {"SIGNED", SIGNED}, {"SINGLE", SINGLE},
        {"DOUBLE", DOUBLE}, {"MOST_PARAMETERS", MOST_PARAMETERS}, {"CONFIG_BYTES", (int)sizeof(Config)}};
    for (size_t n = 0; n < sizeof constants / sizeof *constants; n++)
        if (PyModule_AddIntConstant(module, constants[n].name, constants[n].value) < 0)
            return -1;
    return 0;
}

static PyMethodDef module_methods[] = {
    {"note_launch", (PyCFunction)note_launch, METH_O, "Remember a launch that Python made."},
    {"recent_launches", (PyCFunction)recent_launches, METH_NOARGS, "The functions launched last, the newest first."},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot module_slots[] = {SLOT(Py_mod_exec, fill), {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_quick", "Launches of kernels with arguments like those of an earlier launch.", 0,
    module_methods, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__quick(void)
{
    return PyModuleDef_Init(&module);
}
