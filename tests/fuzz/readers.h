/* SPDX-License-Identifier: Apache-2.0 */
/* All readers; each is called with the bytes of an input. */
#ifndef CADRE_TESTS_FUZZ_READERS_H
#define CADRE_TESTS_FUZZ_READERS_H

#include "tests/fuzz/fuzz.h"

void fuzz_certificate(const uint8_t *data, size_t size);
void fuzz_csv(const uint8_t *data, size_t size);
void fuzz_dialogues(const uint8_t *data, size_t size);
void fuzz_hardware(const uint8_t *data, size_t size);
void fuzz_hf_config(const uint8_t *data, size_t size);
void fuzz_id_map(const uint8_t *data, size_t size);
void fuzz_idx(const uint8_t *data, size_t size);
void fuzz_ini(const uint8_t *data, size_t size);
void fuzz_manifest(const uint8_t *data, size_t size);
void fuzz_nodelist(const uint8_t *data, size_t size);
void fuzz_picture(const uint8_t *data, size_t size);
void fuzz_rendezvous(const uint8_t *data, size_t size);
void fuzz_run_folder(const uint8_t *data, size_t size);
void fuzz_safetensors(const uint8_t *data, size_t size);
void fuzz_token_file(const uint8_t *data, size_t size);
void fuzz_tokenizer_bin(const uint8_t *data, size_t size);
void fuzz_tokenizer_gpt2(const uint8_t *data, size_t size);
void fuzz_tokenizer_json(const uint8_t *data, size_t size);
void fuzz_tokenizer_model(const uint8_t *data, size_t size);
void fuzz_wfdb_annotation(const uint8_t *data, size_t size);
void fuzz_wfdb_header(const uint8_t *data, size_t size);
void fuzz_wfdb_signal(const uint8_t *data, size_t size);

#endif
