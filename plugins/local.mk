# Plugins: one .c, one line here, one .so. The names are those of the modules, so that
# plugins/routers/linear.c is built as plugins/routers/linear.so and installed as
# $(plugindir)/routers/linear.so.
PLUGINS =
PLUGINS += plugins/controllers/expert_bias.so
PLUGINS += plugins/controllers/schedule.so
PLUGINS += plugins/experts/mlp.so
PLUGINS += plugins/experts/swiglu.so
PLUGINS += plugins/regularizers/load_balance.so
PLUGINS += plugins/regularizers/z_loss.so
PLUGINS += plugins/routers/attention.so
PLUGINS += plugins/routers/cosine.so
PLUGINS += plugins/routers/expert_choice.so
PLUGINS += plugins/routers/hash.so
PLUGINS += plugins/routers/hybrid.so
PLUGINS += plugins/routers/linear.so
PLUGINS += plugins/routers/mlp.so
PLUGINS += plugins/routers/mlp_hadamard.so
PLUGINS += plugins/routers/noisy_topk.so
PLUGINS += plugins/routers/oracle.so
PLUGINS += plugins/routers/random.so
PLUGINS += plugins/routers/relu.so
PLUGINS += plugins/routers/self_supervised.so
PLUGINS += plugins/routers/sigmoid_bias.so
PLUGINS += plugins/routers/sinkhorn.so
PLUGINS += plugins/routers/tia_r.so

# Compiled as a stranger's plugin is: the public headers are all that it sees, nothing of the
# program is linked in, and the linker refuses what is left undefined.
PLUGIN_CPPFLAGS = -I$(top_builddir)/include -I$(top_srcdir)/include
PLUGIN_CFLAGS = $(MF_CFLAGS) -fPIC -fvisibility=hidden
PLUGIN_LINK = -shared $(MF_SO_LDFLAGS)

SUFFIXES = .c .so
AM_V_SO = $(am__v_SO_@AM_V@)
am__v_SO_ = $(am__v_SO_@AM_DEFAULT_V@)
am__v_SO_0 = @echo "  PLUGIN  " $@;
am__v_SO_1 =

.c.so:
	$(AM_V_SO)$(MKDIR_P) $(@D) && $(CC) $(PLUGIN_CPPFLAGS) $(CPPFLAGS) $(PLUGIN_CFLAGS) $(CFLAGS) \
	  -MMD -MP -MF $@.d $(PLUGIN_LINK) $(LDFLAGS) -o $@-t $< -lm && mv -f $@-t $@
-include $(PLUGINS:.so=.so.d)

EXTRA_DIST += $(PLUGINS:.so=.c)
CLEANFILES += $(PLUGINS) $(PLUGINS:.so=.so.d)

install-exec-local: $(PLUGINS)
	@for p in $(PLUGINS); do \
	  d=`dirname "$(DESTDIR)$(plugindir)/$${p#plugins/}"`; \
	  echo " $(INSTALL_PROGRAM) $$p $$d"; \
	  $(MKDIR_P) "$$d" && $(INSTALL_PROGRAM) "$$p" "$$d/" || exit 1; \
	done

uninstall-local:
	@for p in $(PLUGINS); do rm -f "$(DESTDIR)$(plugindir)/$${p#plugins/}"; done
