/* The machines of published tables: what their papers print, typed from there. */
#include "hw_models/machine.h"
#include "tests/test.h"

#define GIB 1073741824.0

/* PatrickStar doc/yard_network_fabric.md, nvidia-smi topo -m: NVLinks between GPUs, 0 where it says SYS. */
static const int YARD[8][8] = {
    { 0, 1, 2, 1, 0, 0, 0, 2 }, { 1, 0, 1, 2, 0, 0, 2, 0 }, { 2, 1, 0, 2, 0, 1, 0, 0 }, { 1, 2, 2, 0, 1, 0, 0, 0 },
    { 0, 0, 0, 1, 0, 2, 2, 1 }, { 0, 0, 1, 0, 2, 0, 1, 2 }, { 0, 2, 0, 0, 2, 1, 0, 1 }, { 2, 0, 0, 0, 1, 2, 1, 0 },
};

static bool load(struct machine *machine, const char *name)
{
    struct error error = { 0 };
    if (machine_load(machine, name, &error) != STATUS_OK) {
        TEST_FAIL_("%s: %s", name, error.message);
        return false;
    }
    return true;
}

/* NVLinks between two GPUs of a machine. */
static int lanes(const struct machine *machine, int first, int second)
{
    uint32_t a = machine_part_at(machine, PART_GPU, (uint32_t)first);
    uint32_t b = machine_part_at(machine, PART_GPU, (uint32_t)second);
    int count = 0;
    for (uint32_t i = 0; i < machine->link_count; i++) {
        const struct machine_link *link = &machine->links[i];
        bool joins = (link->a == a && link->b == b) || (link->a == b && link->b == a);
        count += joins && link->kind == LINK_NVLINK ? (int)link->lanes : 0;
    }
    return count;
}

static void test_yard(void)
{
    struct machine machine;
    if (!load(&machine, "yard-v100")) {
        return;
    }
    EXPECT_TEXT(machine.gpu.model, "V100-SXM2-32GB");
    EXPECT_REAL(machine.dram_bytes, 240e9, 1e-5);
    for (int a = 0; a < 8; a++) {
        for (int b = 0; b < 8; b++) {
            EXPECT_INT(a == b ? 0 : lanes(&machine, a, b), YARD[a][b]);
        }
    }
    for (uint32_t i = 0; i < machine.link_count; i++) {
        if (machine.links[i].kind == LINK_NVLINK) {
            EXPECT_REAL(machine.links[i].peak_bytes_per_s, 25.781e9 * machine.links[i].lanes, 1e-6);
        }
    }
    EXPECT(machine_curve(&machine, COLLECTIVE_ALL_REDUCE, 8, 1) != NULL);
    machine_free(&machine);
}

/* Tries to number GPUs `done` to `count` - 1 of one mesh as `to` so that the links agree. */
static bool number(const int a[8][8], const int b[8][8], int count, int *to, int done)
{
    for (int candidate = 0; candidate < count && done < count; candidate++) {
        bool agrees = true;
        for (int k = 0; k < done && agrees; k++) {
            agrees = to[k] != candidate && a[k][done] == b[to[k]][candidate];
        }
        to[done] = candidate;
        if (agrees && number(a, b, count, to, done + 1)) {
            return true;
        }
    }
    return done == count;
}

/* What lets a collective curve of the DGX-1 hold on Yard: GPUs 0 to k-1 of both have the same mesh, under other numbers. Where they have not, the curve is called estimated. */
static void test_yard_is_a_dgx1_renumbered(void)
{
    struct machine dgx1, yard;
    int mesh[8][8], to[8];
    if (!load(&dgx1, "dgx1-v100-32gb") || !load(&yard, "yard-v100")) {
        return;
    }
    for (int a = 0; a < 8; a++) {
        for (int b = 0; b < 8; b++) {
            mesh[a][b] = a == b ? 0 : lanes(&dgx1, a, b);
        }
    }
    for (int count = 2; count <= 8; count++) {
        const struct machine_collective_curve *curve = machine_curve(&yard, COLLECTIVE_ALL_REDUCE, (uint32_t)count, 1);
        char field[64];
        snprintf(field, sizeof field, "collectives.all_reduce.%d", count);
        EXPECT(curve != NULL);
        EXPECT_INT(number(YARD, mesh, count, to, 0), !machine_source_of(&yard, field)->estimated);
        EXPECT_REAL(curve_at(&curve->curve, 1e8),
                    curve_at(&machine_curve(&dgx1, COLLECTIVE_ALL_REDUCE, (uint32_t)count, 1)->curve, 1e8), 0.0);
    }
    machine_free(&dgx1);
    machine_free(&yard);
}

static void test_superpod(void)
{
    struct machine machine, box;
    if (!load(&machine, "superpod-a100-40gb")) {
        return;
    }
    EXPECT_INT(machine.gpu_count, 8);
    EXPECT_REAL(machine.dram_bytes, 1024 * GIB, 1e-12);
    EXPECT_REAL(machine.gpu.memory_bytes, 40 * GIB, 1e-12);
    EXPECT(machine_source_of(&machine, "gpu.memory_GiB")->estimated &&
           !machine_source_of(&machine, "dram_GiB")->estimated);
    EXPECT(machine_part_kind_count(&machine, PART_NIC) > 0); /* several nodes */
    if (load(&box, "dgx-a100-40gb")) {
        EXPECT_REAL(machine.gpu.hbm_bytes_per_s, box.gpu.hbm_bytes_per_s, 0.0);
        EXPECT_INT(machine.link_count, box.link_count);
        machine_free(&box);
    }
    machine_free(&machine);
}

TEST_MAIN(TEST(test_yard), TEST(test_yard_is_a_dgx1_renumbered), TEST(test_superpod))
