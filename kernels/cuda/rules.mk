# The CUDA backend: one shared object in the plugin folder, found at run time. Nothing else is
# linked with CUDA. Its host code is C; nvcc compiles the kernels, once for each architecture.
CUDA_CPPFLAGS = -I$(top_builddir)/include -I$(top_srcdir)/include -I$(top_srcdir)/core \
	-I$(top_srcdir)
CUDA_COMPILE = $(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) -D_GNU_SOURCE= $(CUDA_CPPFLAGS) $(CPPFLAGS) \
	$(MF_CFLAGS) -fPIC -fvisibility=hidden $(CFLAGS) -MMD -MP -c
EXTRA_DIST += $(CUDA_HOST) kernels/cuda/backend.map

CUDA_SO =
INSTALL_CUDA =
UNINSTALL_CUDA =
if HAVE_CUDA
CUDA_SO += plugins/backend_cuda.so
CUDA_OBJECTS = kernels/cuda/backend.o kernels/cuda/code.o kernels/cuda/lt.o kernels/cuda/memory.o \
	kernels/cuda/peak.o kernels/cuda/queue.o
kernels/cuda/backend.o: kernels/cuda/backend.c
	$(CUDA_COMPILE) $(CUDA_CFLAGS) $(top_srcdir)/kernels/cuda/backend.c -o $@
kernels/cuda/code.o: kernels/cuda/code.c
	$(CUDA_COMPILE) $(CUDA_CFLAGS) $(top_srcdir)/kernels/cuda/code.c -o $@
kernels/cuda/lt.o: kernels/cuda/lt.c
	$(CUDA_COMPILE) $(CUDA_CFLAGS) $(top_srcdir)/kernels/cuda/lt.c -o $@
kernels/cuda/memory.o: kernels/cuda/memory.c
	$(CUDA_COMPILE) $(CUDA_CFLAGS) $(top_srcdir)/kernels/cuda/memory.c -o $@
kernels/cuda/peak.o: kernels/cuda/peak.c
	$(CUDA_COMPILE) $(CUDA_CFLAGS) $(top_srcdir)/kernels/cuda/peak.c -o $@
kernels/cuda/queue.o: kernels/cuda/queue.c
	$(CUDA_COMPILE) $(CUDA_CFLAGS) $(top_srcdir)/kernels/cuda/queue.c -o $@
# minutes for each architecture: all at once, half a gigabyte each
kernels/cuda/all.o: $(CUDA_KERNELS)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(NVCC) --threads 4 -std=c++20 -O3 $(CUDA_ARCHITECTURES) \
	  -Xcompiler -fPIC,-fvisibility=hidden $(CUDA_CPPFLAGS) -c $(top_srcdir)/kernels/cuda/all.cu -o $@
-include kernels/cuda/*.d
$(CUDA_SO): $(CUDA_OBJECTS) kernels/cuda/all.o kernels/cuda/backend.map
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(NVCC) -shared -cudart shared \
	  -Xlinker --version-script=$(top_srcdir)/kernels/cuda/backend.map -o $@-t $(CUDA_OBJECTS) \
	  kernels/cuda/all.o $(CUDA_LIBS) && mv -f $@-t $@
INSTALL_CUDA += install-cuda
UNINSTALL_CUDA += uninstall-cuda
install-cuda: $(CUDA_SO)
	@echo " $(INSTALL_PROGRAM) $(CUDA_SO) $(DESTDIR)$(plugindir)"; \
	$(MKDIR_P) "$(DESTDIR)$(plugindir)" && $(INSTALL_PROGRAM) $(CUDA_SO) "$(DESTDIR)$(plugindir)/"
uninstall-cuda:
	@rm -f "$(DESTDIR)$(plugindir)/backend_cuda.so"
endif
.PHONY: install-cuda uninstall-cuda
CLEANFILES += plugins/backend_cuda.so kernels/cuda/*.o kernels/cuda/*.d
