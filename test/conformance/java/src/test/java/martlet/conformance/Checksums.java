// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.HexFormat;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import java.util.zip.Checksum;

/** Checksums as S3 writes them, computed with Java's own classes and not with the SDK. */
final class Checksums {
    private Checksums() {}

    static String etag(byte[] data) {
        return '"' + HexFormat.of().formatHex(digest("MD5", data)) + '"';
    }

    static String md5(byte[] data) {
        return base64(digest("MD5", data));
    }

    static String sha1(byte[] data) {
        return base64(digest("SHA-1", data));
    }

    static String sha256(byte[] data) {
        return base64(digest("SHA-256", data));
    }

    static String crc32(byte[] data) {
        return crc(new CRC32(), data);
    }

    static String crc32c(byte[] data) {
        return crc(new CRC32C(), data);
    }

    private static String crc(Checksum checksum, byte[] data) {
        checksum.update(data, 0, data.length);
        return base64(ByteBuffer.allocate(4).putInt((int) checksum.getValue()).array());
    }

    static byte[] digest(String algorithm, byte[] data) {
        try {
            return MessageDigest.getInstance(algorithm).digest(data);
        } catch (NoSuchAlgorithmException absent) {
            throw new IllegalStateException(absent);
        }
    }

    static String base64(byte[] data) {
        return Base64.getEncoder().encodeToString(data);
    }
}
