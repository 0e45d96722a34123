/* init changes the locale of the whole program. */
#include <locale.h>
#define BEFORE setlocale(LC_ALL, "C.UTF-8");
#include "../bad.h"
