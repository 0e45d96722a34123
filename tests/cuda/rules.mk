# How the emulator is built. `make check` does it where there is a C++ compiler; no other target
# needs one. Only the kernels and the tests of the emulator are compiled with -fsanitize=thread,
# whose calls the emulator defines itself, so nothing is linked with it.
CXX ?= g++
EMU_CXXFLAGS = -std=c++20 -O2 -g -fPIC -Wall -Wextra -Wno-unknown-pragmas
EMU_CPPFLAGS = -I$(top_builddir)/include -I$(top_srcdir)/include -I$(top_srcdir)/core \
	-I$(top_srcdir) -I$(top_srcdir)/tests/cuda -I$(top_srcdir)/kernels/cuda
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
tests/cuda/judged.o: $(CUDA_KERNELS)
	$(EMU_COMPILE) -fsanitize=thread -x c++ $(top_srcdir)/kernels/cuda/all.cu -o $@
tests/cuda/plain.o: $(CUDA_KERNELS)
	$(EMU_COMPILE) -x c++ $(top_srcdir)/kernels/cuda/all.cu -o $@

tests/cuda/check_emu: tests/cuda/check_emu.o $(EMU_OBJECTS)
	$(AM_V_CCLD)$(CXX) -o $@ tests/cuda/check_emu.o $(EMU_OBJECTS)
# The device whose accesses are judged, and the same without a judge, which is faster.
tests/cuda/judged/backend_emu.so: tests/cuda/judged.o tests/cuda/backend_emu.o $(EMU_OBJECTS)
	$(AM_V_SO)$(MKDIR_P) $(@D) && $(CXX) -shared -Wl,-Bsymbolic -o $@-t tests/cuda/judged.o \
	  tests/cuda/backend_emu.o $(EMU_OBJECTS) && mv -f $@-t $@
tests/cuda/plain/backend_emu.so: tests/cuda/plain.o tests/cuda/backend_emu.o $(EMU_OBJECTS)
	$(AM_V_SO)$(MKDIR_P) $(@D) && $(CXX) -shared -Wl,-Bsymbolic -o $@-t tests/cuda/plain.o \
	  tests/cuda/backend_emu.o $(EMU_OBJECTS) && mv -f $@-t $@
-include tests/cuda/*.d

emulator: tests/cuda/check_emu tests/cuda/judged/backend_emu.so
.PHONY: emulator
mostlyclean-local: clean-emulator
clean-emulator:
	rm -rf tests/cuda/*.o tests/cuda/*.d tests/cuda/check_emu tests/cuda/judged tests/cuda/plain
.PHONY: clean-emulator
