#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fairmesh_fuzz::uci(bytes));
