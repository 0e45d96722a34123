# Communicator modules: comm/mpi.c is compiled against the header of each MPI that configure
# found, comm/nccl.c against that of NCCL. They are built as plugins are, and installed beside them.
COMMS =
EXTRA_DIST += comm/mpi.c
EXTRA_DIST += comm/join.c
EXTRA_DIST += comm/join.h
EXTRA_DIST += comm/nccl.c
