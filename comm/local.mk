# Communicator modules: comm/mpi.c is compiled against the header of each MPI that configure
# found. They are built as plugins are, and installed beside them.
COMMS =
EXTRA_DIST += comm/mpi.c
