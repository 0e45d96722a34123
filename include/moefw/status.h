/* moefw/status.h: status codes.
 *
 * Unless its comment says otherwise, a function that can fail returns an int: MF_OK (0), or one
 * of the negative codes below. The function that fails records the message, which says what
 * failed, where, what was expected, and the nearest valid value. The column `exit` is the exit
 * status of the program if the failure reaches main. */
#ifndef MOEFW_STATUS_H
#define MOEFW_STATUS_H

/*      name          value  exit  meaning */
#define MF_STATUS_LIST(X)                                                                      \
    X(MF_OK, 0, 0, "ok")                                                                       \
    X(MF_ERUN, -1, 1, "run failed")                                                            \
    X(MF_ENOMEM, -2, 1, "out of memory")                                                       \
    X(MF_EIO, -3, 1, "input or output error")                                                  \
    X(MF_EUSAGE, -4, 2, "usage error")                                                         \
    X(MF_ECONFIG, -5, 2, "configuration error")                                                \
    X(MF_EINPUT, -6, 3, "bad input file")                                                      \
    X(MF_ECHECKPOINT, -7, 3, "bad checkpoint")                                                 \
    X(MF_EPLUGIN, -8, 4, "plugin refused or broke its contract")                               \
    X(MF_ESHAPE, -9, 4, "shapes or types do not fit")                                          \
    X(MF_ENOGRAD, -10, 4, "no gradient rule on a path that needs one")                         \
    X(MF_ENONFINITE, -11, 5, "diverged: NaN or Inf")                                           \
    X(MF_EDEP, -12, 6, "dependency or device missing")                                         \
    X(MF_EPEER, -13, 7, "peer lost")                                                           \
    X(MF_ELIMIT, -14, 75, "stopped by a limit, checkpoint saved")                              \
    X(MF_ESIGNAL, -15, 130, "stopped by a signal, checkpoint saved")                           \
    X(MF_ENOTFOUND, -16, 2, "not found")                                                       \
    X(MF_EINVAL, -17, 1, "invalid argument")

typedef enum mf_status {
#define MF_STATUS_ENUM(name, value, exit, text) name = value,
    MF_STATUS_LIST(MF_STATUS_ENUM)
#undef MF_STATUS_ENUM
} mf_status;

#endif
