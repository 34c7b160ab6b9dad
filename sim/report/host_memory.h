/* What of host memory lies on another socket than the ranks that use it (sim/engine/host_spill.h): for run's text and JSON. Both print nothing where nothing spills. */
#ifndef MEMWALL_REPORT_HOST_MEMORY_H
#define MEMWALL_REPORT_HOST_MEMORY_H

#include "sim/base/json_write.h"
#include "sim/report/result.h"

/* A line for each socket that spills. */
void host_memory_text(const struct result *result, const struct result_input *input, struct strbuf *out);
/* "host_spill": [ { "node", "socket", "onto_socket", "wanted_bytes", "capacity_bytes", "spilled_bytes" } ] */
void host_memory_json(const struct result *result, const struct result_input *input, struct json_writer *w);

#endif
