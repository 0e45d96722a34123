# The strict device (strict.c): built like a plugin, from files of the tree that plugins never
# see. launches.h is written from the list of kernels.
STRICT = tests/device/backend_strict.so
STRICT_DEVICE =
STRICT_DEVICE += tests/device/counts.h
STRICT_DEVICE += tests/device/lacks.h
STRICT_DEVICE += tests/device/launch.h
STRICT_DEVICE += tests/device/launches.awk
STRICT_DEVICE += tests/device/recordings.h
STRICT_DEVICE += tests/device/strict.c
STRICT_DEVICE += tests/device/strict.h
EXTRA_DIST += $(STRICT_DEVICE)

tests/device/launches.h: tests/device/launches.awk kernels/kernels.def
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(AWK) -f $(top_srcdir)/tests/device/launches.awk \
	  $(top_srcdir)/kernels/kernels.def >$@-t && mv -f $@-t $@

$(STRICT): tests/device/strict.c tests/device/launches.h tests/device/launch.h \
  tests/device/recordings.h tests/device/lacks.h tests/device/counts.h tests/device/strict.h
	$(AM_V_SO)$(CC) -D_GNU_SOURCE= -I$(top_builddir)/include -I$(top_srcdir)/include \
	  -I$(top_srcdir)/core -I$(top_srcdir) -Itests/device $(CPPFLAGS) $(PLUGIN_CFLAGS) $(CFLAGS) \
	  -MMD -MP -MT $@ -MF $@.d $(PLUGIN_LINK) $(LDFLAGS) -o $@-t \
	  $(top_srcdir)/tests/device/strict.c && mv -f $@-t $@
-include $(STRICT).d

check_DATA += $(STRICT)
CLEANFILES += $(STRICT) $(STRICT).d tests/device/launches.h

# Tests of kernels include launches.h.
tests/unit/kernels/kernel_device.$(OBJEXT): tests/device/launches.h
