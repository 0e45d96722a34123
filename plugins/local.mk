# Plugins: one .c, one line here, one .so. The names are those of the modules, so that
# plugins/routers/linear.c is built as plugins/routers/linear.so and installed as
# $(plugindir)/routers/linear.so.
PLUGINS =
PLUGINS += plugins/controllers/expert_bias.so
PLUGINS += plugins/controllers/schedule.so
PLUGINS += plugins/experts/attention.so
PLUGINS += plugins/experts/mlp.so
PLUGINS += plugins/experts/swiglu.so
PLUGINS += plugins/regularizers/cv_importance.so
PLUGINS += plugins/regularizers/cv_load.so
PLUGINS += plugins/regularizers/entropy.so
PLUGINS += plugins/regularizers/importance2_load.so
PLUGINS += plugins/regularizers/l2_balance.so
PLUGINS += plugins/regularizers/load_balance.so
PLUGINS += plugins/regularizers/simbal.so
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
