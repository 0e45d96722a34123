# Settings, one a line: installed in $(sysconfdir)/moefw.
pkgsysconf_DATA =
pkgsysconf_DATA += etc/moefw.ini

pluginsddir = $(pkgsysconfdir)/plugins.d
pluginsd_DATA =

EXTRA_DIST += $(pkgsysconf_DATA) $(pluginsd_DATA)
