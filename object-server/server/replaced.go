package server

import (
	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
)

const (
	// uploadIDName is the system metadata of an object that the S3 API has made of a multipart upload.
	uploadIDName = "X-Object-Sysmeta-S3api-Upload-Id"
	// replacedUploadHeader of an answer has the id of the upload whose object a PUT replaced. Its parts are of no use any more.
	replacedUploadHeader = "X-Backend-Replaced-Upload"
)

// describeReplaced tells whether the write m replaced an object that was a multipart upload. That of a name with versions may
// live on as an old version, here or at another replica. A new object of the same upload has the same parts.
func (x *exchange) describeReplaced(m *format.Metadata, previous device.State) {
	if !previous.Existed || previous.Metadata.Versioned {
		return
	}
	id := previous.Metadata.System[uploadIDName]
	if id != "" && id != m.System[uploadIDName] {
		x.set(replacedUploadHeader, id)
	}
}
