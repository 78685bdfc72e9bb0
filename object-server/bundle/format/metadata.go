package format

//go:generate go tool msgp -file metadata.go -o metadata_gen.go -io=false -tests=false
//go:generate go tool msgp -file timestamp.go -o timestamp_gen.go -io=false -tests=false

//msgp:ignore Hash Headers VersionID

// Metadata is everything a GET or HEAD answers with, besides the bytes.
type Metadata struct {
	Name        string `msg:"n"` // "/account/container/object"
	ContentType string `msg:"c"`
	ETag        string `msg:"e"` // hexadecimal MD5 of the body unless the writer said otherwise
	Size        int64  `msg:"s"` // bytes of the object
	DeleteAt    int64  `msg:"d"` // Unix seconds after which the object is gone; 0 is never

	// Timestamp is the write of the data. MetaTimestamp is the last POST and
	// TypeTimestamp the last change of ContentType; both equal Timestamp
	// until a POST.
	Timestamp     Timestamp `msg:"t"`
	MetaTimestamp Timestamp `msg:"m"`
	TypeTimestamp Timestamp `msg:"y"`

	System Headers `msg:"x"` // survives a POST
	User   Headers `msg:"u"` // replaced as a whole by a POST

	Lock *Lock `msg:"l,omitempty"` // nil: none; survives a POST

	// These two are in the record's header. VersionID is zero for the null
	// version; Versioned says that the name has or had others.
	VersionID VersionID `msg:"-"`
	Versioned bool      `msg:"-"`

	// Doubtful is not stored: records were lost that were written later, and one of
	// them may have replaced or deleted this.
	Doubtful bool `msg:"-"`
}
