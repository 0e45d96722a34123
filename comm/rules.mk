# How communicator modules are built: as plugins are, in the plugin folder of the build.
if HAVE_OPENMPI
COMMS += plugins/comm/openmpi.so
endif
if HAVE_MPICH
COMMS += plugins/comm/mpich.so
endif
if HAVE_NCCL
COMMS += plugins/comm/nccl.so
endif

COMM_BUILD = $(MKDIR_P) plugins/comm && $(CC) -D_GNU_SOURCE= -I$(top_builddir)/include \
	-I$(top_srcdir)/include -I$(top_srcdir)/core $(CPPFLAGS) $(PLUGIN_CFLAGS) $(CFLAGS) \
	-MMD -MP -MT $@ -MF $@.d $(PLUGIN_LINK) $(LDFLAGS) -o $@-t
plugins/comm/openmpi.so: comm/mpi.c
	$(AM_V_SO)$(COMM_BUILD) -DMF_COMM_NAME='"openmpi"' $(OPENMPI_CFLAGS) \
	  $(top_srcdir)/comm/mpi.c $(OPENMPI_LIBS) && mv -f $@-t $@
plugins/comm/mpich.so: comm/mpi.c
	$(AM_V_SO)$(COMM_BUILD) -DMF_COMM_NAME='"mpich"' $(MPICH_CFLAGS) \
	  $(top_srcdir)/comm/mpi.c $(MPICH_LIBS) && mv -f $@-t $@
plugins/comm/nccl.so: comm/nccl.c comm/join.c comm/join.h core/comm/launch.c core/base/sha256.c
	$(AM_V_SO)$(COMM_BUILD) $(NCCL_CFLAGS) $(top_srcdir)/comm/nccl.c $(top_srcdir)/comm/join.c \
	  $(top_srcdir)/core/comm/launch.c $(top_srcdir)/core/base/sha256.c $(NCCL_LIBS) && mv -f $@-t $@
-include $(COMMS:.so=.so.d)
CLEANFILES += $(COMMS) $(COMMS:.so=.so.d)

install-comm: $(COMMS)
	@for p in $(COMMS); do \
	  echo " $(INSTALL_PROGRAM) $$p $(DESTDIR)$(plugindir)/comm"; \
	  $(MKDIR_P) "$(DESTDIR)$(plugindir)/comm" && \
	  $(INSTALL_PROGRAM) "$$p" "$(DESTDIR)$(plugindir)/comm/" || exit 1; \
	done
uninstall-comm:
	@rm -f "$(DESTDIR)$(plugindir)/comm/openmpi.so" "$(DESTDIR)$(plugindir)/comm/mpich.so" \
	  "$(DESTDIR)$(plugindir)/comm/nccl.so"
.PHONY: install-comm uninstall-comm
