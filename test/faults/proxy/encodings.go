package proxy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"mime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// event is one event of a watch.
type event struct {
	// sent is the encoded event, framing included, as a client reads it.
	sent []byte
	// kind is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
	kind string
	// object is the namespace/name of the event's object. Bookmarks and errors have none.
	object string
}

// aboutObject reports whether events of a kind are about an object. Bookmarks and errors are
// about the watch itself.
func aboutObject(kind string) bool { return kind == "ADDED" || kind == "MODIFIED" || kind == "DELETED" }

// reader reads the next event of a watch. After the last one it returns io.EOF.
type reader func() (event, error)

// readerOf returns a reader for the body of a watch with a Content-Type.
func readerOf(contentType string, body io.Reader) (reader, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, fmt.Errorf("watch with Content-Type %q: %w", contentType, err)
	}
	switch mediaType {
	case runtime.ContentTypeJSON:
		return jsonReader(body), nil
	case runtime.ContentTypeProtobuf:
		return protobufReader(body), nil
	}
	return nil, fmt.Errorf("watch with Content-Type %q: the proxy only reads %s and %s", contentType, runtime.ContentTypeJSON, runtime.ContentTypeProtobuf)
}

// jsonReader reads JSON values, one after the other.
func jsonReader(body io.Reader) reader {
	decoder := json.NewDecoder(body)
	return func() (event, error) {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return event{}, err
		}
		var parsed struct {
			Type   string                       `json:"type"`
			Object metav1.PartialObjectMetadata `json:"object"`
		}
		if err := json.Unmarshal(raw, &parsed); err != nil {
			return event{}, notAnEvent(err)
		}
		return newEvent(append(raw, '\n'), parsed.Type, &parsed.Object), nil
	}
}

// mostInFrame is the maximum size of a frame, in bytes. No object is as large.
const mostInFrame = 16 << 20

// protobufReader reads frames: the length in four bytes, and a WatchEvent. The object in the
// WatchEvent has the same prefix as outside of watches.
func protobufReader(body io.Reader) reader {
	const header = 4
	return func() (event, error) {
		sent := make([]byte, header)
		if _, err := io.ReadFull(body, sent); err != nil {
			return event{}, err
		}
		length := binary.BigEndian.Uint32(sent)
		if length > mostInFrame {
			return event{}, notAnEvent(fmt.Errorf("a frame of %d bytes, the most is %d; it begins with %q", length, mostInFrame, sent))
		}
		sent = append(sent, make([]byte, length)...)
		if _, err := io.ReadFull(body, sent[header:]); err != nil {
			return event{}, fmt.Errorf("a frame of %d bytes: %w", len(sent)-header, io.ErrUnexpectedEOF)
		}
		var parsed metav1.WatchEvent
		if err := parsed.Unmarshal(sent[header:]); err != nil {
			return event{}, notAnEvent(err)
		}
		var object metav1.PartialObjectMetadata
		if aboutObject(parsed.Type) {
			if err := metadataOf(parsed.Object.Raw, &object); err != nil {
				return event{}, notAnEvent(err)
			}
		}
		return newEvent(sent, parsed.Type, &object), nil
	}
}

// wrapped is the prefix of objects in protobuf that carry their own type.
var wrapped = []byte("k8s\x00")

// metadataOf reads the metadata of an object in protobuf: all have it as their first field.
func metadataOf(raw []byte, object *metav1.PartialObjectMetadata) error {
	content, found := bytes.CutPrefix(raw, wrapped)
	if !found {
		return fmt.Errorf("an object begins with %q instead of %q", raw[:min(len(raw), len(wrapped))], wrapped)
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(content); err != nil {
		return err
	}
	return object.Unmarshal(unknown.Raw)
}

func newEvent(sent []byte, kind string, object *metav1.PartialObjectMetadata) event {
	return event{sent: sent, kind: kind, object: object.Namespace + "/" + object.Name}
}

func notAnEvent(err error) error { return fmt.Errorf("not the event of a watch: %w", err) }
