/* Ctrl-C (SIGINT) and SIGTERM for commands that keep what they have: between catch and release the first one is only noted, a second one ends the program as usual.
 *
 *     interrupt_catch();
 *     while (!interrupt_seen() && more()) { ... }
 *     interrupt_release(); */
#ifndef MEMWALL_CLI_INTERRUPT_H
#define MEMWALL_CLI_INTERRUPT_H

#include <stdbool.h>

void interrupt_catch(void);
bool interrupt_seen(void); /* since interrupt_catch; from any thread */
void interrupt_release(void);

#endif
