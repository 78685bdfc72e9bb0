// SPDX-License-Identifier: Apache-2.0

// Package miniogo uses MinIO's SDK for Go as an application does, against the server of S3_ENDPOINT.
package miniogo

import (
	"bytes"
	"context"
	"io"
	"math/rand"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/lifecycle"
	"github.com/minio/minio-go/v7/pkg/tags"
)

func newClient(t *testing.T, trailing bool) *minio.Client {
	t.Helper()
	c, err := minio.New(strings.TrimPrefix(os.Getenv("S3_ENDPOINT"), "http://"), &minio.Options{
		Creds:           credentials.NewStaticV4(os.Getenv("S3_ACCESS_KEY"), os.Getenv("S3_SECRET_KEY"), ""),
		Region:          "us-east-1",
		TrailingHeaders: trailing,
	})
	check(t, err)
	return c
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newBucket(t *testing.T, c *minio.Client, locking bool) string {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")) + "-" + time.Now().UTC().Format("150405.000000000")
	check(t, c.MakeBucket(t.Context(), name, minio.MakeBucketOptions{ObjectLocking: locking}))
	return name
}

func data(size int) []byte {
	made := make([]byte, size)
	rand.New(rand.NewSource(int64(size))).Read(made)
	return made
}

func read(t *testing.T, c *minio.Client, bucket, key string, options minio.GetObjectOptions) []byte {
	t.Helper()
	object, err := c.GetObject(t.Context(), bucket, key, options)
	check(t, err)
	defer object.Close()
	body, err := io.ReadAll(object)
	check(t, err)
	return body
}

func TestPutAndGetOfAllSizes(t *testing.T) {
	for _, trailing := range []bool{false, true} {
		c := newClient(t, trailing)
		bucket := newBucket(t, c, false)
		for _, size := range []int{0, 1, 65535, 65536, 65537, 1 << 20, 5<<20 + 1, 20 << 20} {
			want := data(size)
			done, err := c.PutObject(t.Context(), bucket, "ü k/1", bytes.NewReader(want), int64(size),
				minio.PutObjectOptions{PartSize: 5 << 20, ContentType: "text/x", UserMetadata: map[string]string{"color": "blue"}})
			check(t, err)
			found, err := c.StatObject(t.Context(), bucket, "ü k/1", minio.StatObjectOptions{})
			check(t, err)
			if found.Size != int64(size) || found.ETag != done.ETag || found.ContentType != "text/x" ||
				found.UserMetadata["Color"] != "blue" {
				t.Fatalf("size %d, trailing %v: %+v", size, trailing, found)
			}
			if !bytes.Equal(read(t, c, bucket, "ü k/1", minio.GetObjectOptions{}), want) {
				t.Fatalf("size %d, trailing %v: another body", size, trailing)
			}
		}
	}
}

func TestChecksums(t *testing.T) {
	c := newClient(t, true)
	bucket := newBucket(t, c, false)
	for _, kind := range []minio.ChecksumType{minio.ChecksumCRC32, minio.ChecksumCRC32C, minio.ChecksumSHA1,
		minio.ChecksumSHA256, minio.ChecksumCRC64NVME} {
		for _, size := range []int{10, 6 << 20} {
			_, err := c.PutObject(t.Context(), bucket, kind.String(), bytes.NewReader(data(size)), int64(size),
				minio.PutObjectOptions{Checksum: kind, PartSize: 5 << 20})
			check(t, err)
			found, err := c.StatObject(t.Context(), bucket, kind.String(), minio.StatObjectOptions{Checksum: true})
			check(t, err)
			sums := found.ChecksumCRC32 + found.ChecksumCRC32C + found.ChecksumSHA1 + found.ChecksumSHA256 + found.ChecksumCRC64NVME
			if sums == "" {
				t.Errorf("%v of %d bytes: no checksum is shown", kind, size)
			}
			attributes, err := c.GetObjectAttributes(t.Context(), bucket, kind.String(), minio.ObjectAttributesOptions{})
			check(t, err)
			if attributes.ObjectSize != size {
				t.Errorf("attributes: %+v", attributes)
			}
		}
	}
}

func TestReadsInPieces(t *testing.T) {
	c := newClient(t, false)
	bucket := newBucket(t, c, false)
	want := data(3 << 20)
	_, err := c.PutObject(t.Context(), bucket, "k", bytes.NewReader(want), int64(len(want)), minio.PutObjectOptions{})
	check(t, err)
	_, err = c.CopyObject(t.Context(), minio.CopyDestOptions{Bucket: bucket, Object: "copy"}, minio.CopySrcOptions{Bucket: bucket, Object: "k"})
	check(t, err)
	for _, key := range []string{"k", "copy"} {
		object, err := c.GetObject(t.Context(), bucket, key, minio.GetObjectOptions{})
		check(t, err)
		_, err = object.Stat() // from now on, reads have the condition If-Match
		check(t, err)
		_, err = object.Seek(1<<20, io.SeekStart)
		check(t, err)
		rest, err := io.ReadAll(object)
		check(t, err)
		if !bytes.Equal(rest, want[1<<20:]) {
			t.Errorf("%s: another body", key)
		}
		piece := make([]byte, 100)
		_, err = object.ReadAt(piece, 7)
		check(t, err)
		if !bytes.Equal(piece, want[7:107]) {
			t.Errorf("%s: another piece", key)
		}
	}
}

func TestCompose(t *testing.T) {
	c := newClient(t, false)
	bucket := newBucket(t, c, false)
	want := data(5 << 20)
	_, err := c.PutObject(t.Context(), bucket, "a", bytes.NewReader(want), int64(len(want)), minio.PutObjectOptions{})
	check(t, err)
	one := minio.CopySrcOptions{Bucket: bucket, Object: "a"}
	tail := minio.CopySrcOptions{Bucket: bucket, Object: "a", MatchRange: true, Start: 0, End: 9}
	_, err = c.ComposeObject(t.Context(), minio.CopyDestOptions{Bucket: bucket, Object: "b"}, one, tail)
	check(t, err)
	if !bytes.Equal(read(t, c, bucket, "b", minio.GetObjectOptions{}), append(bytes.Clone(want), want[:10]...)) {
		t.Error("another body")
	}
}

func TestVersionsAndListings(t *testing.T) {
	c := newClient(t, false)
	bucket := newBucket(t, c, false)
	check(t, c.EnableVersioning(t.Context(), bucket))
	var versions []string
	for _, body := range []string{"1", "22", "333"} {
		done, err := c.PutObject(t.Context(), bucket, "d/k", strings.NewReader(body), int64(len(body)), minio.PutObjectOptions{})
		check(t, err)
		versions = append(versions, done.VersionID)
	}
	if got := read(t, c, bucket, "d/k", minio.GetObjectOptions{VersionID: versions[0]}); string(got) != "1" {
		t.Errorf("the first version is %q", got)
	}
	check(t, c.RemoveObject(t.Context(), bucket, "d/k", minio.RemoveObjectOptions{}))
	found, markers := 0, 0
	for row := range c.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{WithVersions: true, Recursive: true}) {
		check(t, row.Err)
		found++
		if row.IsDeleteMarker {
			markers++
		}
	}
	if found != 4 || markers != 1 {
		t.Errorf("%d versions, %d delete markers", found, markers)
	}
	for row := range c.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Recursive: true}) {
		t.Errorf("a deleted object is listed: %+v", row)
	}
	gone := make(chan minio.ObjectInfo, 10)
	for _, version := range versions {
		gone <- minio.ObjectInfo{Key: "d/k", VersionID: version}
	}
	close(gone)
	for failed := range c.RemoveObjects(t.Context(), bucket, gone, minio.RemoveObjectsOptions{}) {
		t.Error(failed.Err)
	}
}

func TestTagsAndLifecycle(t *testing.T) {
	c := newClient(t, false)
	bucket := newBucket(t, c, false)
	_, err := c.PutObject(t.Context(), bucket, "k", strings.NewReader("x"), 1, minio.PutObjectOptions{UserTags: map[string]string{"a": "1 +"}})
	check(t, err)
	stored, err := c.GetObjectTagging(t.Context(), bucket, "k", minio.GetObjectTaggingOptions{})
	check(t, err)
	if stored.ToMap()["a"] != "1 +" {
		t.Errorf("tags: %v", stored)
	}
	own, err := tags.MapToBucketTags(map[string]string{"b": "2"})
	check(t, err)
	check(t, c.SetBucketTagging(t.Context(), bucket, own))
	rules := lifecycle.NewConfiguration()
	rules.Rules = []lifecycle.Rule{{
		ID: "one", Status: "Enabled", RuleFilter: lifecycle.Filter{Prefix: "old/"},
		Expiration: lifecycle.Expiration{Days: 3},
	}}
	check(t, c.SetBucketLifecycle(t.Context(), bucket, rules))
	got, err := c.GetBucketLifecycle(t.Context(), bucket)
	check(t, err)
	if len(got.Rules) != 1 || got.Rules[0].Expiration.Days != 3 || got.Rules[0].RuleFilter.Prefix != "old/" {
		t.Errorf("rules: %+v", got.Rules)
	}
}

func TestLocks(t *testing.T) {
	c := newClient(t, false)
	bucket := newBucket(t, c, true)
	done, err := c.PutObject(t.Context(), bucket, "k", strings.NewReader("x"), 1, minio.PutObjectOptions{
		Mode: minio.Governance, RetainUntilDate: time.Now().Add(time.Hour), SendContentMd5: true,
	})
	check(t, err)
	version := minio.RemoveObjectOptions{VersionID: done.VersionID}
	if err := c.RemoveObject(t.Context(), bucket, "k", version); minio.ToErrorResponse(err).Code != "AccessDenied" {
		t.Errorf("a locked version: %v", err)
	}
	version.GovernanceBypass = true
	check(t, c.RemoveObject(t.Context(), bucket, "k", version))
}

func TestPresignedURLs(t *testing.T) {
	c := newClient(t, false)
	bucket := newBucket(t, c, false)
	target, err := c.PresignedPutObject(t.Context(), bucket, "k", time.Minute)
	check(t, err)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPut, target.String(), strings.NewReader("presigned"))
	check(t, err)
	answer, err := http.DefaultClient.Do(request)
	check(t, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("PUT: %s", answer.Status)
	}
	target, err = c.PresignedGetObject(t.Context(), bucket, "k", time.Minute, nil)
	check(t, err)
	answer, err = http.Get(target.String())
	check(t, err)
	defer answer.Body.Close()
	if body, _ := io.ReadAll(answer.Body); string(body) != "presigned" {
		t.Errorf("GET: %s %q", answer.Status, body)
	}
}
