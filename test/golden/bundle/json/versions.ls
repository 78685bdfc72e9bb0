{"offset":128,"lsn":1,"type":"PUT","timestamp":"1780000000.00000","version_id":"00000000000000000000000000000000","size":5,"name":"/AUTH_test/photos/heron","hash":"000102030405060708090a0b0c0d0e0f"}
{"offset":384,"lsn":2,"type":"PUT","timestamp":"1780000001.00000","version_id":"b0b1b2b3b4b5b6b7b8b9babbbcbdbebf","size":5,"name":"/AUTH_test/photos/heron","hash":"000102030405060708090a0b0c0d0e0f"}
{"offset":768,"lsn":3,"type":"PUT","timestamp":"1780000002.00000","version_id":"c0c1c2c3c4c5c6c7c8c9cacbcccdcecf","size":5,"name":"/AUTH_test/photos/heron","hash":"000102030405060708090a0b0c0d0e0f"}
{"offset":1216,"lsn":4,"type":"DELETE MARKER","timestamp":"1780000003.00000","version_id":"d0d1d2d3d4d5d6d7d8d9dadbdcdddedf","size":0,"name":"/AUTH_test/photos/heron","hash":"000102030405060708090a0b0c0d0e0f"}
{"offset":1728,"lsn":5,"type":"PUT","timestamp":"1780000000.50000","version_id":"e0e1e2e3e4e5e6e7e8e9eaebecedeeef","size":5,"name":"/AUTH_test/photos/heron","hash":"000102030405060708090a0b0c0d0e0f"}
{"offset":2304,"lsn":6,"type":"TOMBSTONE","timestamp":"1780000004.00000","version_id":"d0d1d2d3d4d5d6d7d8d9dadbdcdddedf","size":0,"name":"/AUTH_test/photos/heron","hash":"000102030405060708090a0b0c0d0e0f"}
{"offset":2944,"lsn":7,"type":"PUT","timestamp":"1780000001.00000","version_id":"b0b1b2b3b4b5b6b7b8b9babbbcbdbebf","size":5,"name":"/AUTH_test/photos/heron","hash":"000102030405060708090a0b0c0d0e0f"}
{"offset":3648,"lsn":8,"type":"PAD","size":0}
