# The script of the report's pages as C strings, without its comments and indentation.
tools/report/page/script.c: tools/report/page/script.js
	$(AM_V_GEN)$(MKDIR_P) tools/report/page && { \
	    echo '#include "report/page/html.h"'; echo 'const char *const mf_html_script[] = {'; \
	    sed -e '/^ *\/\//d' -e 's/^ *//' -e '/^$$/d' -e 's/[\"]/\\&/g' -e 's/.*/"&\\n",/' \
	        $(srcdir)/tools/report/page/script.js && echo 'NULL};'; } >$@-t && mv -f $@-t $@
nodist_tools_libtools_a_SOURCES = tools/report/page/script.c
CLEANFILES += tools/report/page/script.c tools/report/page/script.c-t
EXTRA_DIST += tools/report/page/script.js
