/* The heap of a whole program: for main() of the command line and of benchmarks, never for the library.
 *
 * A run fills some tens of megabytes once, and on virtual machines touching fresh 4 KiB pages costs more than the simulation itself (15 us a page were measured on the build machine).
 * heap_prepare keeps the C library's heap in one piece and asks the kernel to back it with huge pages. Only untouched address space is asked for; where the C library or kernel does not know
 * how, nothing happens. */
#ifndef MEMWALL_BASE_HEAP_H
#define MEMWALL_BASE_HEAP_H

/* Once, before anything large is allocated and before there are threads. */
void heap_prepare(void);

#endif
