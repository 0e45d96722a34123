# Plugins of the project are compiled as third-party ones are: they include the public headers
# only, are linked with nothing of the program, and the linker refuses undefined symbols.
PLUGIN_CPPFLAGS = -I$(top_builddir)/include -I$(top_srcdir)/include
PLUGIN_CFLAGS = $(MF_CFLAGS) -fPIC -fvisibility=hidden
PLUGIN_LINK = -shared $(MF_SO_LDFLAGS)

SUFFIXES = .c .so
AM_V_SO = $(am__v_SO_@AM_V@)
am__v_SO_ = $(am__v_SO_@AM_DEFAULT_V@)
am__v_SO_0 = @echo "  PLUGIN  " $@;
am__v_SO_1 =

.c.so:
	$(AM_V_SO)$(MKDIR_P) $(@D) && $(CC) $(PLUGIN_CPPFLAGS) $(CPPFLAGS) $(PLUGIN_IMAGE) $(PLUGIN_CFLAGS) \
	  $(CFLAGS) -MMD -MP -MT $@ -MF $@.d $(PLUGIN_LINK) $(LDFLAGS) -o $@-t $< -lm && mv -f $@-t $@
-include $(PLUGINS:.so=.so.d)

# A plugin that is no longer listed must not be found by a program run in place. Only what was
# built from the list before is removed, nobody's own files.
plugins/.built: Makefile
	@$(MKDIR_P) plugins && for p in `cat $@ 2>/dev/null`; do \
	  case " "`echo $(PLUGINS)`" " in *" $$p "*) ;; *) rm -f "$$p" "$$p.d" ;; esac; \
	done; echo $(PLUGINS) >$@-t && mv -f $@-t $@
CLEANFILES += plugins/.built plugins/.built-t

# Kernels of plugins for GPUs, which the plugin carries as data.
PLUGIN_KERNELS = plugins/routers/hash.cu
PLUGIN_IMAGE =
if HAVE_CUDA
plugins/routers/hash.fatbin: plugins/routers/hash.cu include/moefw/kernel.cuh kernels/cuda/device.cuh
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(NVCC) -std=c++20 -O3 -fatbin $(CUDA_ARCHITECTURES) \
	  $(PLUGIN_CPPFLAGS) -I$(top_srcdir)/kernels/cuda $(top_srcdir)/plugins/routers/hash.cu -o $@
plugins/routers/hash.so: plugins/routers/hash.fatbin
plugins/routers/hash.so: PLUGIN_IMAGE = -DMOEFW_IMAGE='"plugins/routers/hash.fatbin"'
endif
EXTRA_DIST += $(PLUGIN_KERNELS)
CLEANFILES += plugins/routers/hash.fatbin

EXTRA_DIST += $(PLUGINS:.so=.c)
CLEANFILES += $(PLUGINS) $(PLUGINS:.so=.so.d)

install-exec-local: install-library install-comm $(INSTALL_CUDA) $(PLUGINS)
	@for p in $(PLUGINS); do \
	  d=`dirname "$(DESTDIR)$(plugindir)/$${p#plugins/}"`; \
	  echo " $(INSTALL_PROGRAM) $$p $$d"; \
	  $(MKDIR_P) "$$d" && $(INSTALL_PROGRAM) "$$p" "$$d/" || exit 1; \
	done

uninstall-local: uninstall-settings uninstall-library uninstall-comm $(UNINSTALL_CUDA)
	@for p in $(PLUGINS); do rm -f "$(DESTDIR)$(plugindir)/$${p#plugins/}"; done
