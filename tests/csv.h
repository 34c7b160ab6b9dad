/* A small reader of the measured CSV files (header row, optional double quotes, no embedded newlines): rows by column name. */
#ifndef MEMWALL_TESTS_CSV_H
#define MEMWALL_TESTS_CSV_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CSV_COLUMNS_MAX = 64 };

struct csv {
    char *text;
    char **cells; /* [rows * columns] */
    char *heads[CSV_COLUMNS_MAX];
    size_t rows, columns;
};

static inline char *csv_cell(char *at, char **cell)
{
    if (*at == '"') {
        *cell = ++at;
        while (*at != '\0' && *at != '"') {
            at++;
        }
        if (*at == '"') {
            *at++ = '\0';
        }
    } else {
        *cell = at;
        while (*at != '\0' && *at != ',' && *at != '\n' && *at != '\r') {
            at++;
        }
    }
    return at;
}

/* False when the file is not there. */
static inline bool csv_load(struct csv *csv, const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/data/measured/%s", folder, name);
    FILE *file = fopen(path, "rb");
    memset(csv, 0, sizeof *csv);
    if (file == NULL) {
        return false;
    }
    fseek(file, 0, SEEK_END);
    size_t length = (size_t)ftell(file);
    rewind(file);
    csv->text = calloc(length + 2, 1);
    if (csv->text == NULL || fread(csv->text, 1, length, file) != length) {
        fclose(file);
        free(csv->text);
        return false;
    }
    fclose(file);
    size_t lines = 1;
    for (size_t i = 0; i < length; i++) {
        lines += csv->text[i] == '\n';
    }
    csv->cells = calloc(lines * CSV_COLUMNS_MAX, sizeof *csv->cells);
    char *at = csv->text;
    bool head = true;
    while (csv->cells != NULL && *at != '\0') {
        size_t column = 0;
        for (;;) {
            char *cell;
            at = csv_cell(at, &cell);
            if (column < CSV_COLUMNS_MAX) {
                if (head) {
                    csv->heads[column] = cell;
                } else if (column < csv->columns) {
                    csv->cells[csv->rows * csv->columns + column] = cell;
                }
                column++;
            }
            if (*at != ',') {
                break;
            }
            *at++ = '\0';
        }
        while (*at == '\r' || *at == '\n') {
            *at++ = '\0';
        }
        if (head) {
            csv->columns = column;
        } else {
            csv->rows++;
        }
        head = false;
    }
    return true;
}

static inline const char *csv_text(const struct csv *csv, size_t row, const char *head)
{
    for (size_t c = 0; c < csv->columns; c++) {
        if (strcmp(csv->heads[c], head) == 0) {
            const char *cell = csv->cells[row * csv->columns + c];
            return cell != NULL ? cell : "";
        }
    }
    fprintf(stderr, "no column %s\n", head);
    exit(1);
}

static inline double csv_number(const struct csv *csv, size_t row, const char *head)
{
    return strtod(csv_text(csv, row, head), NULL);
}

static inline void csv_free(struct csv *csv)
{
    free(csv->text);
    free(csv->cells);
}

static inline const char *measured_folder(void)
{
    const char *folder = getenv("MEMWALL_SHARED");
    return folder != NULL ? folder : "../shared";
}

#endif
