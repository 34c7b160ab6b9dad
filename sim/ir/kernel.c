/* The words and sizes of the kernel tables. */
#include "sim/ir/kernel.h"

#include "sim/base/check.h"

const char *dtype_word(enum dtype dtype)
{
    static const char *const words[] = {
#define X(name, word, bytes) word,
        DTYPE_TABLE(X)
#undef X
    };
    CHECK((unsigned)dtype < DTYPE_COUNT);
    return words[dtype];
}

uint32_t dtype_bytes(enum dtype dtype)
{
    static const uint32_t sizes[] = {
#define X(name, word, bytes) bytes,
        DTYPE_TABLE(X)
#undef X
    };
    CHECK((unsigned)dtype < DTYPE_COUNT);
    return sizes[dtype];
}

const char *kernel_class_word(enum kernel_class kernel_class)
{
    static const char *const words[] = {
#define X(name, word, help) word,
        KERNEL_CLASS_TABLE(X)
#undef X
    };
    CHECK((unsigned)kernel_class < KERNEL_CLASS_COUNT);
    return words[kernel_class];
}

struct kernel kernel_of_traffic(enum kernel_class kernel_class, double bytes_read, double bytes_written,
                                uint32_t launches)
{
    return (struct kernel){
        .kernel_class = (uint8_t)kernel_class,
        .dtype = DTYPE_FP32,
        .launches = launches > 0 ? launches : 1,
        .batch = 1,
        .m = 1,
        .n = 1,
        .k = 1,
        .bytes_read = bytes_read,
        .bytes_written = bytes_written,
    };
}
