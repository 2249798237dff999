/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

/* What is large at the base is of the reader, whatever the file: iniparser's room,
 * tables of a tokenizer, a block of zlib. */
const struct fuzz_reader fuzz_readers[] = {
    {"certificate", fuzz_certificate, 64 * KIB, 64},
    {"csv", fuzz_csv, 64 * KIB, 64},
    {"dialogues", fuzz_dialogues, 64 * KIB, 64},
    {"hardware", fuzz_hardware, 128 * KIB, 64},
    {"hf_config", fuzz_hf_config, 64 * KIB, 64},
    {"id_map", fuzz_id_map, 64 * KIB, 64},
    {"idx", fuzz_idx, 4 * MIB, 1100}, /* deflate packs 1032 bytes into one */
    {"ini", fuzz_ini, 128 * KIB, 64},
    {"manifest", fuzz_manifest, 2 * MIB, 64}, /* hashed in blocks */
    {"nodelist", fuzz_nodelist, 64 * KIB, 64},
    {"picture", fuzz_picture, 4 * MIB, 1100},
    {"rendezvous", fuzz_rendezvous, 64 * KIB, 64},
    {"run", fuzz_run_folder, 128 * KIB, 64},
    {"safetensors", fuzz_safetensors, 64 * KIB, 64},
    {"token_file", fuzz_token_file, 64 * KIB, 64},
    {"tokenizer_bin", fuzz_tokenizer_bin, 4 * MIB, 64},
    {"tokenizer_gpt2", fuzz_tokenizer_gpt2, 4 * MIB, 64},
    {"tokenizer_json", fuzz_tokenizer_json, 4 * MIB, 64},
    {"tokenizer_model", fuzz_tokenizer_model, 4 * MIB, 64},
    {"wfdb_annotation", fuzz_wfdb_annotation, 64 * KIB, 64},
    {"wfdb_header", fuzz_wfdb_header, 64 * KIB, 256},
    {"wfdb_signal", fuzz_wfdb_signal, 64 * KIB, 256},
};
const size_t fuzz_n_readers = sizeof fuzz_readers / sizeof *fuzz_readers;
