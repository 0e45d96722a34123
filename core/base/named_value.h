/* base/named_value.h: a number with its name, as in records of metrics. */
#ifndef MF_BASE_NAMED_VALUE_H
#define MF_BASE_NAMED_VALUE_H

typedef struct mf_named_value {
    const char *name; /* NULL: the value is not written */
    double value;     /* NaN is written as null */
} mf_named_value;

#endif
