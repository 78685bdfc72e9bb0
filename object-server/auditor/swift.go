package auditor

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	pickle "github.com/kisielk/og-rek"

	"martlet/object-server/ring"
	"martlet/object-server/vfs"
)

const (
	swiftXattr         = "user.swift.metadata" // in pieces, the later ones with a number
	swiftChecksumXattr = "user.swift.metadata_checksum"
	swiftPiecesMax     = 1 << 10
	swiftReadSize      = 1 << 20
)

// swift audits the files of OpenStack Swift in a partition: <suffix>/<hash>/<timestamp>.data, .meta or .ts. The server does
// not serve them, so what is damaged is reported and stays where it is.
func (d *device) swift(ctx context.Context, kind Kind, u unit, done *Report) error {
	files := d.files(ctx, done)
	done.Partitions++
	root := filepath.Join(d.root, folder(u.Policy, true), strconv.FormatUint(uint64(u.Partition), 10))
	return eachEntry(files, root, func(suffix string) error {
		return eachEntry(files, suffix, func(directory string) error {
			return eachEntry(files, directory, func(path string) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				switch filepath.Ext(path) {
				case ".data", ".meta", ".ts":
				default:
					return nil
				}
				if err := d.waitFor(ctx, kind, 1); err != nil {
					return err
				}
				err := checkSwift(files, path, &d.config.Hasher, kind == Full)
				if errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil { // removed meanwhile
					return ctx.Err()
				}
				done.Objects++
				if err != nil {
					done.Damages++
					d.config.Logger.Error("damage was found", "device", d.name, "policy", u.Policy, "partition", u.Partition, "file", path, "damage", err)
				}
				return nil
			})
		})
	})
}

// eachEntry calls do with the path of each entry of a directory. What is none, or is gone, has no entries.
func eachEntry(files vfs.FS, directory string, do func(path string) error) error {
	entries, err := files.ReadDir(directory)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil
		}
		return err
	}
	for _, entry := range entries {
		if err := do(filepath.Join(directory, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

var errSwift = errors.New("damaged file of OpenStack Swift")

// checkSwift checks one file: that its metadata are whole and of a name that belongs there, and of data the size and, if whole
// is set, the ETag.
func checkSwift(files vfs.FS, path string, hasher *ring.Hasher, whole bool) error {
	file, err := files.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() // only read from
	metadata, err := swiftMetadata(file)
	if err != nil {
		return err
	}
	name, hasName := metadata["name"]
	if parts := strings.SplitN(name, "/", 4); hasName && len(parts) == 4 && parts[0] == "" {
		hash := hasher.Object(parts[1], parts[2], parts[3])
		if directory := filepath.Base(filepath.Dir(path)); hex.EncodeToString(hash[:]) != directory {
			return fmt.Errorf("%w: %q does not belong into directory %s", errSwift, name, directory)
		}
	} else if hasName || filepath.Ext(path) == ".data" {
		return fmt.Errorf("%w: %q is no name of an object", errSwift, name)
	}
	if filepath.Ext(path) != ".data" {
		return nil
	}
	return checkSwiftData(file, metadata, whole && !strings.Contains(filepath.Base(path), "#"))
}

// checkSwiftData checks the size, and the ETag unless the file is a fragment of an erasure code.
func checkSwiftData(file vfs.File, metadata map[string]string, whole bool) error {
	size, err := file.Size()
	if err != nil {
		return err
	}
	if told := metadata["Content-Length"]; told != strconv.FormatInt(size, 10) {
		return fmt.Errorf("%w: it has %d bytes, and Content-Length is %q", errSwift, size, told)
	}
	if !whole {
		return nil
	}
	sum := md5.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, io.NewSectionReader(file, 0, size), make([]byte, swiftReadSize)); err != nil {
		return err
	}
	if etag := hex.EncodeToString(sum.Sum(nil)); etag != metadata["ETag"] {
		return fmt.Errorf("%w: its MD5 is %s, and ETag is %q", errSwift, etag, metadata["ETag"])
	}
	return nil
}

// swiftMetadata reads the pickled metadata of a file from its extended attributes.
func swiftMetadata(file vfs.File) (map[string]string, error) {
	var raw []byte
	for n := range swiftPiecesMax {
		key := swiftXattr
		if n > 0 {
			key += strconv.Itoa(n)
		}
		piece, err := file.GetXattr(key)
		if errors.Is(err, vfs.ErrNoXattr) {
			break
		}
		if err != nil {
			return nil, err
		}
		raw = append(raw, piece...)
	}
	if len(raw) == 0 {
		return nil, fmt.Errorf("%w: it has no metadata", errSwift)
	}
	sum := md5.Sum(raw)
	if told, err := file.GetXattr(swiftChecksumXattr); err == nil && string(told) != hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("%w: the checksum of its metadata is wrong", errSwift)
	}
	return parseSwiftMetadata(raw)
}

// parseSwiftMetadata reads a pickled dict of plain text.
func parseSwiftMetadata(raw []byte) (map[string]string, error) {
	decoded, err := pickle.NewDecoder(bytes.NewReader(raw)).Decode()
	if err != nil {
		return nil, fmt.Errorf("%w: its metadata: %w", errSwift, err)
	}
	pairs, ok := decoded.(map[any]any)
	if !ok {
		return nil, fmt.Errorf("%w: its metadata are no dict", errSwift)
	}
	metadata := map[string]string{}
	for key, value := range pairs {
		metadata[fmt.Sprint(key)] = fmt.Sprint(value)
	}
	return metadata, nil
}
