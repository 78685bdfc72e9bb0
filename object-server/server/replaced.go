package server

import (
	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
)

const (
	// uploadIDName is the system metadata of an object that the S3 API has made of a multipart upload.
	uploadIDName = "X-Object-Sysmeta-S3api-Upload-Id"
	// replacedUploadHeader of an answer has the id of the upload whose object a PUT replaced, or a DELETE removed. Its parts
	// are of no use any more.
	replacedUploadHeader = "X-Backend-Replaced-Upload"
)

// describeReplaced tells whether the write m replaced an object that was a multipart upload. A new object of the same upload
// has the same parts. The null version of a name with versions is replaced unless it is kept under an id. Another replica may
// have kept it, so the proxy asks for the word of most.
func (x *exchange) describeReplaced(m *format.Metadata, previous device.State) {
	if !previous.Existed || !m.VersionID.IsNull() || previous.Kept != nil {
		return
	}
	if id := previous.Metadata.System[uploadIDName]; id != m.System[uploadIDName] {
		x.describeUpload(id)
	}
}

// describeRemoved tells whether the object that is gone was a multipart upload. That of a name with versions may live on as
// an old version, here or at another replica.
func (x *exchange) describeRemoved(previous device.State) {
	if previous.Existed && !previous.Metadata.Versioned {
		x.describeUpload(previous.Metadata.System[uploadIDName])
	}
}

func (x *exchange) describeUpload(id string) {
	if id != "" {
		x.set(replacedUploadHeader, id)
	}
}
