{"offset":128,"lsn":10,"type":"PUT","timestamp":"1780000000.12345","version_id":"00000000000000000000000000000000","size":5,"name":"/AUTH_test/photos/heron","hash":"000102030405060708090a0b0c0d0e0f"}
{"offset":512,"lsn":11,"type":"TOMBSTONE","timestamp":"1780000000.00001_0000000000000001","version_id":"00000000000000000000000000000000","size":0,"name":"/AUTH_test/photos/auk","hash":"000102030405060708090a0b0c0d0e0f"}
{"offset":768,"lsn":12,"type":"CHECKPOINT","size":112}
{"offset":1024,"lsn":13,"type":"SPILL","timestamp":"1780000000.12345","version_id":"00000000000000000000000000000000","size":98304,"name":"/AUTH_test/photos/crane","hash":"101112131415161718191a1b1c1d1e1f"}
