package message

// Field is a request header that the server reads itself, and does not only store.
type Field uint8

// The fields; Name returns the header.
const (
	Timestamp Field = iota
	PolicyIndex
	ContentType
	ContentTypeTimestamp
	ETag
	DeleteAt
	DeleteAfter
	DeleteAtHost
	DeleteAtPartition
	DeleteAtDevice
	DeleteAtContainer
	CleanExpiringQueue
	IfDeleteAt
	IfTimestamp
	IfMatch
	IfNoneMatch
	IfModifiedSince
	IfUnmodifiedSince
	ETagIsAt
	Range
	IgnoreRangeIfPresent
	Replication
	ReplicationHeaders
	OpenExpired
	TransactionID
	ContainerHost
	ContainerPartition
	ContainerDevice
	ContainerPath
	QuotedContainerPath
	CopyFrom
	CopyMetadata
	CopyIfTimestamp
	VersionID
	VersionMarker
	VersionRestore
	VersionHide
	VersionList
	LockMode
	LockUntil
	LockHold
	LockBypass
	MetadataFooter
	MIMEBoundary
	ObjectContentLength
	BodyChecksum
	MultiphaseCommit
	NoCommit
	Expect

	fieldCount
)

// names are canonical, as net/http writes them.
var names = [fieldCount]string{
	Timestamp:            "X-Timestamp",
	PolicyIndex:          "X-Backend-Storage-Policy-Index",
	ContentType:          "Content-Type",
	ContentTypeTimestamp: "Content-Type-Timestamp",
	ETag:                 "Etag",
	DeleteAt:             "X-Delete-At",
	DeleteAfter:          "X-Delete-After",
	DeleteAtHost:         "X-Delete-At-Host",
	DeleteAtPartition:    "X-Delete-At-Partition",
	DeleteAtDevice:       "X-Delete-At-Device",
	DeleteAtContainer:    "X-Delete-At-Container",
	CleanExpiringQueue:   "X-Backend-Clean-Expiring-Object-Queue",
	IfDeleteAt:           "X-If-Delete-At",
	IfTimestamp:          "X-Backend-If-Timestamp",
	IfMatch:              "If-Match",
	IfNoneMatch:          "If-None-Match",
	IfModifiedSince:      "If-Modified-Since",
	IfUnmodifiedSince:    "If-Unmodified-Since",
	ETagIsAt:             "X-Backend-Etag-Is-At",
	Range:                "Range",
	IgnoreRangeIfPresent: "X-Backend-Ignore-Range-If-Metadata-Present",
	Replication:          "X-Backend-Replication",
	ReplicationHeaders:   "X-Backend-Replication-Headers",
	OpenExpired:          "X-Backend-Open-Expired",
	TransactionID:        "X-Trans-Id",
	ContainerHost:        "X-Container-Host",
	ContainerPartition:   "X-Container-Partition",
	ContainerDevice:      "X-Container-Device",
	ContainerPath:        "X-Backend-Container-Path",
	QuotedContainerPath:  "X-Backend-Quoted-Container-Path",
	CopyFrom:             "X-Backend-Copy-From",
	CopyMetadata:         "X-Backend-Copy-Metadata",
	CopyIfTimestamp:      "X-Backend-Copy-If-Timestamp",
	VersionID:            "X-Backend-Version-Id",
	VersionMarker:        "X-Backend-Version-Marker",
	VersionRestore:       "X-Backend-Version-Restore",
	VersionHide:          "X-Backend-Version-Hide",
	VersionList:          "X-Backend-Version-List",
	LockMode:             "X-Backend-Lock-Mode",
	LockUntil:            "X-Backend-Lock-Until",
	LockHold:             "X-Backend-Lock-Hold",
	LockBypass:           "X-Backend-Lock-Bypass",
	MetadataFooter:       "X-Backend-Obj-Metadata-Footer",
	MIMEBoundary:         "X-Backend-Obj-Multipart-Mime-Boundary",
	ObjectContentLength:  "X-Backend-Obj-Content-Length",
	BodyChecksum:         "X-Backend-Body-Checksum",
	MultiphaseCommit:     "X-Backend-Obj-Multiphase-Commit",
	NoCommit:             "X-Backend-No-Commit",
	Expect:               "Expect",
}

// fields are the fields by the names of their headers.
var fields = func() map[string]Field {
	byName := make(map[string]Field, len(names))
	for f, name := range names {
		byName[name] = Field(f)
	}
	return byName
}()

// Name returns the canonical name of the header.
func (f Field) Name() string { return names[f] }

// FieldOf returns the field of a header by its canonical name; ok is false for a header that is none.
func FieldOf(name string) (f Field, ok bool) {
	f, ok = fields[name]
	return f, ok
}
