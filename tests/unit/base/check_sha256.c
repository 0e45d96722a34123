/* SHA-256: the examples of FIPS 180-4, and lengths around the ends of blocks. */
#include "check_main.h"

#include "base/sha256.h"

#include <string.h>

START_TEST(hashes_are_those_of_the_standard)
{
    static const struct {
        const char *text, *hash;
    } cases[] = {
        {"", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
        {"abc", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE="},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopq"
         "klmnopqrlmnopqrsmnopqrstnopqrstu",
         "z1sWp3ivg4ADbOWeewSSNwskmxHo8HpRr6xFA3r+6dE="},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char hash[45];
        mf_sha256_base64(cases[i].text, strlen(cases[i].text), hash);
        ck_assert_str_eq(hash, cases[i].hash);
    }
}
END_TEST

/* RFC 4231, cases 1, 2 and 4. */
START_TEST(keyed_hashes_are_those_of_the_standard)
{
    static const struct {
        const char *key, *data, *begin;
    } cases[] = {
        {"\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b",
         "Hi There", "\xb0\x34\x4c\x61\xd8\xdb\x38\x53"},
        {"Jefe", "what do ya want for nothing?", "\x5b\xdc\xc1\x46\xbf\x60\x75\x4e"},
        {"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15"
         "\x16"
         "\x17\x18\x19",
         "\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd"
         "\xcd"
         "\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd\xcd"
         "\xcd"
         "\xcd\xcd\xcd\xcd\xcd\xcd",
         "\x82\x55\x8a\x38\x9a\x44\x3c\x0e"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char out[MF_HMAC_BYTES];
        mf_hmac_sha256(cases[i].key, strlen(cases[i].key), cases[i].data, strlen(cases[i].data),
                       out);
        ck_assert_msg(memcmp(out, cases[i].begin, 8) == 0, "case %zu", i);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sha256");
    TCase *c = tcase_create("sha256");
    tcase_add_test(c, hashes_are_those_of_the_standard);
    tcase_add_test(c, keyed_hashes_are_those_of_the_standard);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
