// SPDX-License-Identifier: Apache-2.0

// Package awssdk uses Amazon's SDK for Go as an application does, against the server of S3_ENDPOINT.
package awssdk

import (
	"bytes"
	"errors"
	"io"
	"math/rand"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

func newClient() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(os.Getenv("S3_ENDPOINT")),
		Region:       "us-east-1",
		UsePathStyle: true,
		// As a client from the default configuration has it.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
		Credentials:                credentials.NewStaticCredentialsProvider(os.Getenv("S3_ACCESS_KEY"), os.Getenv("S3_SECRET_KEY"), ""),
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func codeOf(err error) string {
	var refused smithy.APIError
	if errors.As(err, &refused) {
		return refused.ErrorCode()
	}
	return ""
}

func newBucket(t *testing.T, c *s3.Client, locking bool) *string {
	t.Helper()
	name := strings.ToLower(t.Name()) + "-" + time.Now().UTC().Format("150405.000000000")
	_, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name, ObjectLockEnabledForBucket: &locking})
	check(t, err)
	return &name
}

func data(size int) []byte {
	made := make([]byte, size)
	rand.New(rand.NewSource(int64(size))).Read(made)
	return made
}

func put(t *testing.T, c *s3.Client, bucket *string, key, body string) *s3.PutObjectOutput {
	t.Helper()
	done, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: strings.NewReader(body)})
	check(t, err)
	return done
}

func TestChecksumsOfPutAndGet(t *testing.T) {
	c := newClient()
	bucket, key := newBucket(t, c, false), aws.String("ü k/1")
	for _, algorithm := range types.ChecksumAlgorithm("").Values() {
		for _, size := range []int{0, 10, 200_000} {
			want := data(size)
			_, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: key, Body: bytes.NewReader(want), ChecksumAlgorithm: algorithm})
			switch algorithm {
			case types.ChecksumAlgorithmCrc32, types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmSha1,
				types.ChecksumAlgorithmSha256, types.ChecksumAlgorithmCrc64nvme:
				check(t, err)
			default: // newer ones are refused, rather than ignored
				if err == nil {
					t.Errorf("%s is accepted", algorithm)
				}
				continue
			}
			got, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: bucket, Key: key, ChecksumMode: types.ChecksumModeEnabled})
			check(t, err)
			body, err := io.ReadAll(got.Body) // the SDK compares the checksum
			check(t, err)
			if !bytes.Equal(body, want) || got.ChecksumType != types.ChecksumTypeFullObject {
				t.Errorf("%s of %d bytes: %d bytes, %s", algorithm, size, len(body), got.ChecksumType)
			}
		}
	}
}

func TestTransferManager(t *testing.T) {
	c := newClient()
	bucket, key := newBucket(t, c, false), aws.String("large")
	want := data(17 << 20)
	_, err := manager.NewUploader(c).Upload(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: key, Body: io.MultiReader(bytes.NewReader(want))})
	check(t, err)
	got := manager.NewWriteAtBuffer(nil)
	_, err = manager.NewDownloader(c).Download(t.Context(), got, &s3.GetObjectInput{Bucket: bucket, Key: key})
	check(t, err)
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("another body")
	}
	part, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: bucket, Key: key, PartNumber: aws.Int32(2)})
	check(t, err)
	if aws.ToInt32(part.PartsCount) != 4 || aws.ToInt64(part.ContentLength) != 5<<20 {
		t.Errorf("part 2: %d parts, %d bytes", aws.ToInt32(part.PartsCount), aws.ToInt64(part.ContentLength))
	}
	part.Body.Close()
}

func TestMultipart(t *testing.T) {
	c := newClient()
	bucket, key := newBucket(t, c, false), aws.String("parts")
	begun, err := c.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: bucket, Key: key})
	check(t, err)
	var parts []types.CompletedPart
	for number, size := range map[int32]int{2: 100, 1: 5 << 20} { // in any order
		done, err := c.UploadPart(t.Context(), &s3.UploadPartInput{Bucket: bucket, Key: key, UploadId: begun.UploadId,
			PartNumber: &number, Body: bytes.NewReader(data(size))})
		check(t, err)
		parts = append(parts, types.CompletedPart{PartNumber: aws.Int32(number), ETag: done.ETag, ChecksumCRC32: done.ChecksumCRC32})
	}
	listed, err := c.ListParts(t.Context(), &s3.ListPartsInput{Bucket: bucket, Key: key, UploadId: begun.UploadId})
	check(t, err)
	if len(listed.Parts) != 2 || aws.ToInt64(listed.Parts[1].Size) != 100 {
		t.Errorf("parts: %+v", listed.Parts)
	}
	if *parts[0].PartNumber == 2 {
		parts[0], parts[1] = parts[1], parts[0]
	}
	complete := &s3.CompleteMultipartUploadInput{Bucket: bucket, Key: key, UploadId: begun.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}}
	for range 2 { // it may be repeated
		_, err = c.CompleteMultipartUpload(t.Context(), complete)
		check(t, err)
	}
	begun, err = c.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: bucket, Key: key})
	check(t, err)
	_, err = c.AbortMultipartUpload(t.Context(), &s3.AbortMultipartUploadInput{Bucket: bucket, Key: key, UploadId: begun.UploadId})
	check(t, err)
	_, err = c.ListParts(t.Context(), &s3.ListPartsInput{Bucket: bucket, Key: key, UploadId: begun.UploadId})
	if codeOf(err) != "NoSuchUpload" {
		t.Errorf("an aborted upload: %v", err)
	}
}

func TestConditions(t *testing.T) {
	c := newClient()
	bucket, key := newBucket(t, c, false), aws.String("k")
	first := put(t, c, bucket, *key, "1")
	_, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: key, IfNoneMatch: aws.String("*")})
	if codeOf(err) != "PreconditionFailed" {
		t.Errorf("If-None-Match: %v", err)
	}
	_, err = c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: key, IfMatch: first.ETag, Body: strings.NewReader("2")})
	check(t, err)
	_, err = c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: bucket, Key: key, IfMatch: first.ETag})
	if codeOf(err) != "PreconditionFailed" {
		t.Errorf("If-Match: %v", err)
	}
}

func TestVersions(t *testing.T) {
	c := newClient()
	bucket := newBucket(t, c, false)
	_, err := c.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{Bucket: bucket,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
	check(t, err)
	first := put(t, c, bucket, "k", "1")
	put(t, c, bucket, "k", "2")
	gone, err := c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: bucket, Key: aws.String("k")})
	check(t, err)
	if !aws.ToBool(gone.DeleteMarker) {
		t.Error("no delete marker")
	}
	_, err = c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: bucket, Key: aws.String("k")})
	if codeOf(err) != "NoSuchKey" {
		t.Errorf("a deleted object: %v", err)
	}
	pages := s3.NewListObjectVersionsPaginator(c, &s3.ListObjectVersionsInput{Bucket: bucket, MaxKeys: aws.Int32(1)})
	found := 0
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		check(t, err)
		found += len(page.Versions) + len(page.DeleteMarkers)
	}
	if found != 3 {
		t.Errorf("%d versions", found)
	}
	_, err = c.CopyObject(t.Context(), &s3.CopyObjectInput{Bucket: bucket, Key: aws.String("k"),
		CopySource: aws.String(*bucket + "/k?versionId=" + *first.VersionId)})
	check(t, err)
	doomed := []types.ObjectIdentifier{{Key: aws.String("k"), VersionId: first.VersionId}, {Key: aws.String("none")}}
	deleted, err := c.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: bucket, Delete: &types.Delete{Objects: doomed}})
	check(t, err)
	if len(deleted.Errors) != 0 || len(deleted.Deleted) != 2 {
		t.Errorf("%+v", deleted)
	}
}

func TestListings(t *testing.T) {
	c := newClient()
	bucket := newBucket(t, c, false)
	for _, key := range []string{"a/1", "a/2", "b", "ü +&"} {
		put(t, c, bucket, key, "x")
	}
	pages := s3.NewListObjectsV2Paginator(c, &s3.ListObjectsV2Input{Bucket: bucket, MaxKeys: aws.Int32(2), Delimiter: aws.String("/")})
	var keys []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		check(t, err)
		for _, row := range page.CommonPrefixes {
			keys = append(keys, *row.Prefix)
		}
		for _, row := range page.Contents {
			keys = append(keys, *row.Key)
		}
	}
	if got := strings.Join(keys, " "); got != "a/ b ü +&" {
		t.Errorf("listed: %s", got)
	}
}

func TestTagsAndLifecycle(t *testing.T) {
	c := newClient()
	bucket, key := newBucket(t, c, false), aws.String("k")
	put(t, c, bucket, *key, "x")
	want := &types.Tagging{TagSet: []types.Tag{{Key: aws.String("a"), Value: aws.String("1 +")}}}
	_, err := c.PutObjectTagging(t.Context(), &s3.PutObjectTaggingInput{Bucket: bucket, Key: key, Tagging: want})
	check(t, err)
	got, err := c.GetObjectTagging(t.Context(), &s3.GetObjectTaggingInput{Bucket: bucket, Key: key})
	check(t, err)
	if len(got.TagSet) != 1 || *got.TagSet[0].Value != "1 +" {
		t.Errorf("tags: %+v", got.TagSet)
	}
	rule := types.LifecycleRule{ID: aws.String("one"), Status: types.ExpirationStatusEnabled,
		Filter: &types.LifecycleRuleFilter{Prefix: aws.String("old/")}, Expiration: &types.LifecycleExpiration{Days: aws.Int32(3)}}
	_, err = c.PutBucketLifecycleConfiguration(t.Context(), &s3.PutBucketLifecycleConfigurationInput{Bucket: bucket,
		LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{rule}}})
	check(t, err)
	rules, err := c.GetBucketLifecycleConfiguration(t.Context(), &s3.GetBucketLifecycleConfigurationInput{Bucket: bucket})
	check(t, err)
	if len(rules.Rules) != 1 || *rules.Rules[0].Expiration.Days != 3 {
		t.Errorf("rules: %+v", rules.Rules)
	}
}

func TestLocks(t *testing.T) {
	c := newClient()
	bucket, key := newBucket(t, c, true), aws.String("k")
	done, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: key, Body: strings.NewReader("x"),
		ObjectLockLegalHoldStatus: types.ObjectLockLegalHoldStatusOn})
	check(t, err)
	doomed := &s3.DeleteObjectInput{Bucket: bucket, Key: key, VersionId: done.VersionId}
	if _, err = c.DeleteObject(t.Context(), doomed); codeOf(err) != "AccessDenied" {
		t.Errorf("a version on hold: %v", err)
	}
	_, err = c.PutObjectLegalHold(t.Context(), &s3.PutObjectLegalHoldInput{Bucket: bucket, Key: key,
		VersionId: done.VersionId, LegalHold: &types.ObjectLockLegalHold{Status: types.ObjectLockLegalHoldStatusOff}})
	check(t, err)
	_, err = c.DeleteObject(t.Context(), doomed)
	check(t, err)
}

func TestPresignedURLs(t *testing.T) {
	c := newClient()
	bucket, key := newBucket(t, c, false), aws.String("ü k")
	put(t, c, bucket, *key, "presigned")
	signed, err := s3.NewPresignClient(c).PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: bucket, Key: key})
	check(t, err)
	answer, err := http.Get(signed.URL)
	check(t, err)
	defer answer.Body.Close()
	if body, _ := io.ReadAll(answer.Body); string(body) != "presigned" {
		t.Errorf("GET: %s %q", answer.Status, body)
	}
}
