# How the emulator is built. `make check` does it where there is a C++ compiler; no other target
# needs one. Only the kernels and the tests of the emulator are compiled with -fsanitize=thread,
# whose calls the emulator defines itself, so nothing is linked with it.
CXX ?= g++
EMU_CXXFLAGS = -std=c++20 -O2 -g -fPIC -Wall -Wextra -Wno-unknown-pragmas
EMU_CPPFLAGS = -I$(top_builddir)/include -I$(top_srcdir)/include -I$(top_srcdir)/core \
	-I$(top_srcdir) -I$(top_srcdir)/tests/cuda -I$(top_srcdir)/kernels/cuda
# One large file, of which the judge is the slow part.
EMU_KERNEL_CXXFLAGS = -O1 -g1 -x c++
EMU_COMPILE = $(AM_V_GEN)$(MKDIR_P) $(@D) && $(CXX) $(EMU_CPPFLAGS) $(EMU_CXXFLAGS) -MMD -MP -c

EMU_OBJECTS = tests/cuda/emu.o tests/cuda/judge.o tests/cuda/late.o tests/cuda/traffic.o
tests/cuda/emu.o: tests/cuda/emu.cc
	$(EMU_COMPILE) $(top_srcdir)/tests/cuda/emu.cc -o $@
tests/cuda/judge.o: tests/cuda/judge.cc
	$(EMU_COMPILE) $(top_srcdir)/tests/cuda/judge.cc -o $@
tests/cuda/late.o: tests/cuda/late.cc
	$(EMU_COMPILE) $(top_srcdir)/tests/cuda/late.cc -o $@
tests/cuda/traffic.o: tests/cuda/traffic.cc
	$(EMU_COMPILE) $(top_srcdir)/tests/cuda/traffic.cc -o $@
tests/cuda/backend_emu.o: tests/cuda/backend_emu.cc
	$(EMU_COMPILE) $(top_srcdir)/tests/cuda/backend_emu.cc -o $@
tests/cuda/check_emu.o: tests/cuda/check_emu.cc
	$(EMU_COMPILE) -fsanitize=thread $(top_srcdir)/tests/cuda/check_emu.cc -o $@
tests/cuda/check_traffic.o: tests/cuda/check_traffic.cc
	$(EMU_COMPILE) $(top_srcdir)/tests/cuda/check_traffic.cc -o $@
tests/cuda/judged.o: $(CUDA_KERNELS)
	$(EMU_COMPILE) $(EMU_KERNEL_CXXFLAGS) -fsanitize=thread $(top_srcdir)/kernels/cuda/all.cu -o $@
tests/cuda/plain.o: $(CUDA_KERNELS)
	$(EMU_COMPILE) $(EMU_KERNEL_CXXFLAGS) $(top_srcdir)/kernels/cuda/all.cu -o $@

tests/cuda/check_emu: tests/cuda/check_emu.o $(EMU_OBJECTS)
	$(AM_V_CCLD)$(CXX) -o $@ tests/cuda/check_emu.o $(EMU_OBJECTS)
tests/cuda/check_traffic: tests/cuda/check_traffic.o tests/cuda/judged.o $(EMU_OBJECTS)
	$(AM_V_CCLD)$(CXX) -o $@ tests/cuda/check_traffic.o tests/cuda/judged.o $(EMU_OBJECTS)
# The device whose accesses are judged, and the same without a judge, which is faster.
tests/cuda/judged/backend_emu.so: tests/cuda/judged.o tests/cuda/backend_emu.o $(EMU_OBJECTS)
	$(AM_V_SO)$(MKDIR_P) $(@D) && $(CXX) -shared -Wl,-Bsymbolic -o $@-t tests/cuda/judged.o \
	  tests/cuda/backend_emu.o $(EMU_OBJECTS) && mv -f $@-t $@
tests/cuda/plain/backend_emu.so: tests/cuda/plain.o tests/cuda/backend_emu.o $(EMU_OBJECTS)
	$(AM_V_SO)$(MKDIR_P) $(@D) && $(CXX) -shared -Wl,-Bsymbolic -o $@-t tests/cuda/plain.o \
	  tests/cuda/backend_emu.o $(EMU_OBJECTS) && mv -f $@-t $@
-include tests/cuda/*.d

# The CUDA backend with the emulator's libraries of CUDA. Its host code is the one that a device
# gets; kernels are compiled by an ordinary compiler, without the judge. Where there is a toolkit,
# host code is compiled with its headers (CUDA_CFLAGS of configure), so a call that CUDA declares in
# another way is an error; the fake libraries are compiled with the declarations of include/.
if HAVE_CUDA
FAKE_CFLAGS = $(CUDA_CFLAGS)
else
FAKE_CFLAGS = -I$(top_srcdir)/tests/cuda/include
endif
# without the flags of a build with sanitizers, with which the emulator is not linked
FAKE_COMPILE = $(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) -std=gnu17 -D_GNU_SOURCE= $(CUDA_CPPFLAGS) \
	-O2 -g -Wall -Wextra -fPIC -fvisibility=hidden -MMD -MP -c
FAKE_CUDA = tests/cuda/fake/backend_cuda.so
FAKE_HOST = tests/cuda/fake/backend.o tests/cuda/fake/code.o tests/cuda/fake/lt.o tests/cuda/fake/memory.o \
	tests/cuda/fake/peak.o tests/cuda/fake/queue.o
tests/cuda/fake/backend.o: kernels/cuda/backend.c
	$(FAKE_COMPILE) $(FAKE_CFLAGS) $(top_srcdir)/kernels/cuda/backend.c -o $@
tests/cuda/fake/code.o: kernels/cuda/code.c
	$(FAKE_COMPILE) $(FAKE_CFLAGS) $(top_srcdir)/kernels/cuda/code.c -o $@
tests/cuda/fake/lt.o: kernels/cuda/lt.c
	$(FAKE_COMPILE) $(FAKE_CFLAGS) $(top_srcdir)/kernels/cuda/lt.c -o $@
tests/cuda/fake/memory.o: kernels/cuda/memory.c
	$(FAKE_COMPILE) $(FAKE_CFLAGS) $(top_srcdir)/kernels/cuda/memory.c -o $@
tests/cuda/fake/peak.o: kernels/cuda/peak.c
	$(FAKE_COMPILE) $(FAKE_CFLAGS) $(top_srcdir)/kernels/cuda/peak.c -o $@
tests/cuda/fake/queue.o: kernels/cuda/queue.c
	$(FAKE_COMPILE) $(FAKE_CFLAGS) $(top_srcdir)/kernels/cuda/queue.c -o $@
tests/cuda/fake/fake_cudart.o: tests/cuda/fake_cudart.cc
	$(EMU_COMPILE) -I$(top_srcdir)/tests/cuda/include $(top_srcdir)/tests/cuda/fake_cudart.cc -o $@
tests/cuda/fake/fake_cublaslt.o: tests/cuda/fake_cublaslt.cc
	$(EMU_COMPILE) -I$(top_srcdir)/tests/cuda/include $(top_srcdir)/tests/cuda/fake_cublaslt.cc -o $@
tests/cuda/fake/fake_library.o: tests/cuda/fake_library.cc
	$(EMU_COMPILE) -I$(top_srcdir)/tests/cuda/include $(top_srcdir)/tests/cuda/fake_library.cc -o $@
FAKE_CUDART = tests/cuda/fake/libcudart.so.13
$(FAKE_CUDART): tests/cuda/fake/fake_cudart.o tests/cuda/fake/fake_library.o $(EMU_OBJECTS)
	$(AM_V_CCLD)$(CXX) -shared -Wl,-soname,libcudart.so.13 -o $@-t tests/cuda/fake/fake_cudart.o \
	  tests/cuda/fake/fake_library.o $(EMU_OBJECTS) -ldl && mv -f $@-t $@
FAKE_CUBLASLT = tests/cuda/fake/libcublasLt.so.13
$(FAKE_CUBLASLT): tests/cuda/fake/fake_cublaslt.o $(FAKE_CUDART)
	$(AM_V_CCLD)$(CXX) -shared -Wl,-soname,libcublasLt.so.13 -o $@-t tests/cuda/fake/fake_cublaslt.o \
	  $(FAKE_CUDART) && mv -f $@-t $@
$(FAKE_CUDA): $(FAKE_HOST) tests/cuda/plain.o $(FAKE_CUDART) $(FAKE_CUBLASLT) kernels/cuda/backend.map
	$(AM_V_SO)$(CXX) -shared -Wl,-Bsymbolic -Wl,--no-undefined -Wl,-rpath,'$$ORIGIN' \
	  -Wl,--version-script=$(top_srcdir)/kernels/cuda/backend.map -o $@-t $(FAKE_HOST) \
	  tests/cuda/plain.o $(FAKE_CUDART) $(FAKE_CUBLASLT) && mv -f $@-t $@
-include tests/cuda/fake/*.d
# The plugin hash with kernels that the emulator runs, of which every access is judged.
FAKE_HASH = tests/cuda/fake/routers/hash.so
tests/cuda/fake/routers/hash.twin: plugins/routers/hash.cu include/moefw/kernel.cuh kernels/cuda/device.cuh
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(CXX) $(EMU_CPPFLAGS) $(EMU_CXXFLAGS) -O1 -g1 -MMD -MP -MT $@ \
	  -x c++ -fsanitize=thread -c $(top_srcdir)/plugins/routers/hash.cu -o $@.o && \
	  $(CXX) -shared -o $@-t $@.o && mv -f $@-t $@
$(FAKE_HASH): plugins/routers/hash.c tests/cuda/fake/routers/hash.twin
	$(AM_V_SO)$(CC) $(PLUGIN_CPPFLAGS) $(CPPFLAGS) -DMOEFW_IMAGE='"tests/cuda/fake/routers/hash.twin"' \
	  -std=gnu17 -O2 -fPIC -fvisibility=hidden -shared $(MF_SO_LDFLAGS) -o $@-t \
	  $(top_srcdir)/plugins/routers/hash.c -lm && mv -f $@-t $@
-include tests/cuda/fake/routers/*.d
fake-cuda: $(FAKE_CUDA) $(FAKE_HASH)
.PHONY: fake-cuda

# The communicator of NCCL with a library that stands for NCCL and CUDA; it needs no C++ compiler.
FAKE_NCCL = tests/cuda/nccl/comm/nccl.so
FAKE_LIBNCCL = tests/cuda/nccl/comm/libnccl.so.2
$(FAKE_LIBNCCL): tests/cuda/fake_nccl.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) -std=gnu17 -D_GNU_SOURCE= -O2 -g -Wall -Wextra -fPIC \
	  -fvisibility=hidden -I$(top_srcdir)/tests/cuda/include -shared -Wl,-soname,libnccl.so.2 \
	  -o $@-t $(top_srcdir)/tests/cuda/fake_nccl.c && mv -f $@-t $@
$(FAKE_NCCL): comm/nccl.c comm/join.c comm/join.h core/comm/launch.c core/base/sha256.c $(FAKE_LIBNCCL)
	$(AM_V_SO)$(CC) -D_GNU_SOURCE= -I$(top_builddir)/include -I$(top_srcdir)/include \
	  -I$(top_srcdir)/core -I$(top_srcdir)/tests/cuda/include $(CPPFLAGS) $(PLUGIN_CFLAGS) $(CFLAGS) \
	  $(PLUGIN_LINK) $(LDFLAGS) -o $@-t $(top_srcdir)/comm/nccl.c $(top_srcdir)/comm/join.c \
	  $(top_srcdir)/core/comm/launch.c $(top_srcdir)/core/base/sha256.c \
	  $(FAKE_LIBNCCL) -Wl,-rpath,'$$ORIGIN' && mv -f $@-t $@
fake-nccl: $(FAKE_NCCL)
.PHONY: fake-nccl

# For somebody with a GPU: all checks of the backend, and a page with the results to send back.
check-gpu:
	@$(SHELL) $(top_srcdir)/tests/cuda/gpu/check_gpu.sh $(top_srcdir) .
.PHONY: check-gpu

emulator: tests/cuda/check_emu tests/cuda/check_traffic tests/cuda/judged/backend_emu.so
.PHONY: emulator
mostlyclean-local: clean-emulator
clean-emulator:
	rm -rf tests/cuda/*.o tests/cuda/*.d tests/cuda/check_emu tests/cuda/check_traffic tests/cuda/judged tests/cuda/plain \
	  tests/cuda/fake tests/cuda/nccl
.PHONY: clean-emulator
