# The script of the report's pages as C strings, without its comments and indentation.
core/report/page/script.c: core/report/page/script.js
	$(AM_V_GEN)$(MKDIR_P) core/report/page && { \
	    echo '#include "report/page/html.h"'; echo 'const char *const mf_html_script[] = {'; \
	    sed -e '/^ *\/\//d' -e 's/^ *//' -e '/^$$/d' -e 's/[\"]/\\&/g' -e 's/.*/"&\\n",/' \
	        $(srcdir)/core/report/page/script.js && echo 'NULL};'; } >$@-t && mv -f $@-t $@
nodist_core_libmoefw_a_SOURCES = core/report/page/script.c
CLEANFILES += core/report/page/script.c core/report/page/script.c-t
