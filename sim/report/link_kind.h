/* What kind of link a resource of a cluster is: the word under which traffic of many links is summed up. */
#ifndef MEMWALL_REPORT_LINK_KIND_H
#define MEMWALL_REPORT_LINK_KIND_H

#include "hw_models/cluster.h"

/* A kind of machine.h ("pcie", "nvlink", "socket", ...) for links and fabric ports, else "network", "dram", "storage"; "other" for what is no link. Static. */
const char *link_kind_word(const struct cluster *cluster, uint32_t resource);

#endif
