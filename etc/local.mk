# Settings, one a line: installed in $(sysconfdir)/moefw.
pkgsysconf_DATA =
pkgsysconf_DATA += etc/moefw.ini

pluginsd_DATA =
