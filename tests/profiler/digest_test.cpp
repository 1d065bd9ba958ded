#include "profiler/digest.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "profiler/error.hpp"
#include "support/temp_dir.hpp"

TEST_SUITE_BEGIN("profiler");

TEST_CASE("SHA-256: the standard's examples, and the same from a file") {
  CHECK(rope::sha256_of_bytes("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(rope::sha256_of_bytes("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string million(1'000'000, 'a');
  const std::string expected = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
  CHECK(rope::sha256_of_bytes(million) == expected);
  rope::test::TempDir folder;
  std::ofstream(folder / "f", std::ios::binary) << million;
  CHECK(rope::sha256_of_file(folder / "f") == expected);
  CHECK_THROWS_AS(rope::sha256_of_file(folder / "none"), rope::UserError);
  CHECK_THROWS_AS(rope::sha256_of_file(folder.path().string()), rope::UserError);
}

TEST_SUITE_END();
