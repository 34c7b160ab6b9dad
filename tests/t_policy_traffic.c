/* What the offload policies move (tests/moves_run.h), over the ways that the machine gives it, is run's traffic link by link; compare says of links and of classes at the peak what the two results say. */
#include "sim/report/compare.h"
#include "tests/moves_run.h"

/* ---- run's traffic ---- */

/* Bytes of one copy or transfer of drives over each resource; of a phantom (i > 0) where the first device's way lies too. */
static void add_way(const struct report_run *run, struct endpoint from, struct endpoint to, bool pageable, double bytes,
                    bool phantom, bool *used, double *amounts)
{
    struct route route;
    EXPECT_INT(cluster_route(&run->scenario.cluster, from, to, pageable, &route, NULL), STATUS_OK);
    for (uint32_t u = 0; u < route.use_count; u++) {
        if (!phantom || used[route.uses[u].resource]) {
            used[route.uses[u].resource] = true;
            amounts[route.uses[u].resource] += route.uses[u].coefficient * bytes;
        }
    }
}

static void add_op_ways(const struct report_run *run, const struct sched_op *op, bool *used, double *amounts)
{
    const struct schedule *s = &run->schedule;
    const struct cluster *cluster = &run->scenario.cluster;
    const struct sched_rank *rank = &s->ranks[sched_op_rank(s, op)];
    const struct sched_work *work = &s->works[op->work];
    bool to_host = op->opcode == OP_COPY_D2H || op->opcode == OP_STORAGE_READ;
    bool copy = op->opcode == OP_COPY_D2H || op->opcode == OP_COPY_H2D;
    memset(used, 0, cluster->resource_count * sizeof *used);
    for (uint32_t i = 0; i < rank->device_count; i++) {
        uint32_t gpu = s->devices[rank->first_device + i], ends = copy ? 1 : cluster->drives;
        for (uint32_t d = 0; d < ends; d++) {
            struct endpoint host = cluster_gpu_host(cluster, gpu);
            struct endpoint far = { copy ? ENDPOINT_GPU : ENDPOINT_STORAGE, copy ? gpu : d }; /* one server */
            add_way(run, to_host ? far : host, to_host ? host : far, work->pageable != 0, work->bytes / ends, i > 0,
                    used, amounts);
        }
    }
}

/* Every copy and transfer of drives, over the way that the machine gives it, is run's traffic of class "offload", link by link. */
static void expect_traffic(const struct report_run *run, const struct json *result)
{
    const struct schedule *s = &run->schedule;
    const struct cluster *cluster = &run->scenario.cluster;
    double *amounts = calloc(cluster->resource_count, sizeof *amounts);
    bool *used = calloc(cluster->resource_count, sizeof *used);
    uint32_t moves = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (op->opcode == OP_COPY_D2H || op->opcode == OP_COPY_H2D || op->opcode == OP_STORAGE_READ ||
            op->opcode == OP_STORAGE_WRITE) {
            EXPECT_INT(op->phase, PHASE_OFFLOAD);
            add_op_ways(run, op, used, amounts);
            moves++;
        }
    }
    struct json links, link, by_class;
    EXPECT_INT(json_array(result, "traffic", &links, NULL), STATUS_OK);
    for (size_t i = 0; i < json_count(&links); i++) {
        const char *name = "", *found = "";
        double told = 0;
        uint32_t r = 0;
        char text[96];
        json_item(&links, i, &link);
        EXPECT_INT(json_string(&link, "link", &found, NULL), STATUS_OK);
        EXPECT_INT(json_object(&link, "by_class", &by_class, NULL), STATUS_OK);
        EXPECT_INT(json_real_or(&by_class, "offload", 0, 1e18, 0, &told, NULL), STATUS_OK);
        for (; r < cluster->resource_count; r++) {
            name = cluster_resource_name(cluster, r, text, sizeof text);
            if (strcmp(name, found) == 0) {
                break;
            }
        }
        EXPECT(r < cluster->resource_count);
        /* A move takes whole picoseconds: each loses up to half of one at the link's full rate. */
        double rounding = moves * 0.5e-12 * cluster->resources[r].capacity + 1e-9 * amounts[r];
        EXPECT(fabs(told - amounts[r]) <= rounding);
        if (fabs(told - amounts[r]) > rounding) {
            printf("  %s: %.17g told, %.17g by the schedule\n", found, told, amounts[r]);
        }
        amounts[r] = 0;
    }
    for (uint32_t r = 0; r < cluster->resource_count; r++) { /* no link is left out */
        enum resource_kind kind = cluster->resources[r].kind;
        EXPECT(amounts[r] == 0 || (kind != RESOURCE_LINK && kind != RESOURCE_DRAM));
    }
    free(used);
    free(amounts);
}

/* ---- compare ---- */

static double traffic_of_kind(const struct json *result, const char *word)
{
    struct json links, link;
    double sum = 0;
    EXPECT_INT(json_array(result, "traffic", &links, NULL), STATUS_OK);
    for (size_t i = 0; i < json_count(&links); i++) {
        const char *kind = "";
        double bytes = 0;
        json_item(&links, i, &link);
        EXPECT_INT(json_string(&link, "kind", &kind, NULL), STATUS_OK);
        EXPECT_INT(json_real(&link, "bytes", 0, 1e18, &bytes, NULL), STATUS_OK);
        sum += strcmp(kind, word) == 0 ? bytes : 0;
    }
    return sum;
}

struct compared {
    const struct report_run *runs[2];
    const struct json *results[2];
    uint32_t links, classes;
};

/* What compare says of links and of classes at the peak are the results' own figures. */
static void expect_figure(void *context, const struct compared_figure *figure)
{
    struct compared *both = context;
    const double told[2] = { figure->a, figure->b };
    for (int side = 0; side < 2; side++) {
        if (figure->outer != NULL && strcmp(figure->outer, "traffic") == 0) {
            EXPECT_REAL(told[side], traffic_of_kind(both->results[side], figure->key), 1e-12);
            both->links++;
        }
        const struct schedule *s = &both->runs[side]->schedule;
        for (uint32_t i = 0; figure->inner != NULL && strcmp(figure->inner, "device") == 0 && i < s->space_count; i++) {
            const struct space_use *use = &both->runs[side]->timeline.spaces[i];
            for (uint32_t c = 0; s->spaces[i].kind == SPACE_DEVICE && s->ranks[0].first_device == 0 &&
                                 s->spaces[i].location == s->devices[0] && c < BUFFER_CLASS_COUNT;
                 c++) {
                if (s->rank_count == 1 && strcmp(figure->key, buffer_class_word(c)) == 0) {
                    EXPECT_REAL(told[side], (double)use->at_peak_bytes[c], 0);
                    both->classes++;
                }
            }
        }
    }
}

static void test_copies_are_the_traffic(void)
{
    for (uint32_t i = 0; i < MOVES_CASE_COUNT; i++) {
        static struct report_run run;
        struct strbuf text = { 0 };
        struct json_document *document = NULL;
        struct json root;
        if (moves_run(&run, &MOVES_CASES[i]) && moves_result(&run, &text, &document, &root)) {
            expect_traffic(&run, &root);
        }
        json_free(document);
        strbuf_free(&text);
        report_run_free(&run);
    }
}

static void test_compare_says_the_same(void)
{
    for (uint32_t i = 0; i + 1 < MOVES_CASE_COUNT; i += 3) {
        static struct report_run runs[2];
        struct strbuf texts[2] = { { 0 }, { 0 } };
        struct json_document *documents[2] = { NULL, NULL };
        struct json roots[2];
        struct error error = { 0 };
        bool ran = moves_run(&runs[0], &MOVES_CASES[i]) && moves_run(&runs[1], &MOVES_CASES[i + 1]);
        for (int side = 0; side < 2 && ran; side++) {
            ran = moves_result(&runs[side], &texts[side], &documents[side], &roots[side]);
        }
        struct comparison comparison = { 0 };
        struct compared both = { { &runs[0], &runs[1] }, { &roots[0], &roots[1] }, 0, 0 };
        if (ran) {
            EXPECT_INT(compare_read(&comparison.a, &roots[0], &error), STATUS_OK);
            EXPECT_INT(compare_read(&comparison.b, &roots[1], &error), STATUS_OK);
            compare_visit(&comparison, expect_figure, &both);
            EXPECT(both.links >= 4); /* PCIe and DRAM of both at least */
            EXPECT(both.classes >= 2);
        }
        for (int side = 0; side < 2; side++) {
            json_free(documents[side]);
            strbuf_free(&texts[side]);
            report_run_free(&runs[side]);
        }
    }
}

TEST_MAIN(TEST(test_copies_are_the_traffic), TEST(test_compare_says_the_same))
