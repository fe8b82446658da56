package proxy

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// encodings are those of watches, by Content-Type: how a server writes the event of an object.
var encodings = map[string]func(t *testing.T, kind, object string) string{
	"application/json": func(_ *testing.T, kind, object string) string { return inJSON(kind, object) + "\n" },
	"application/vnd.kubernetes.protobuf;stream=watch": inProtobuf,
}

func inJSON(kind, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"metadata":{"name":%q}}}`, kind, object)
}

func inProtobuf(t *testing.T, kind, object string) string {
	t.Helper()
	var claim, frame bytes.Buffer
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	require.NoError(t, serializer.Encode(&resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: object},
		// What follows the metadata.
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu"}}}},
	}, &claim))
	sent, err := (&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: claim.Bytes()}}).Marshal()
	require.NoError(t, err)
	_, err = protobuf.LengthDelimitedFramer.NewFrameWriter(&frame).Write(sent)
	require.NoError(t, err)
	return frame.String()
}

// streamOf is a watch with what a server has sent.
func streamOf(t *testing.T, contentType, sent string, choose func() (Kind, int, time.Duration)) *eventStream {
	t.Helper()
	body := io.NopCloser(strings.NewReader(sent))
	read, err := readerOf(contentType, body)
	require.NoError(t, err)
	return newEventStream(body, read, choose)
}

func TestRepeatedEvents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		after  int // the event, bookmarks not counted, after which others are repeated
		repeat int
		want   []int // numbers of sent events
	}{
		"the last one":             {after: 0, repeat: 1, want: []int{0, 0, 1, 2, 3, 4, 5}},
		"more than there were":     {after: 0, repeat: 30, want: []int{0, 0, 1, 2, 3, 4, 5}},
		"no end without beginning": {after: 3, repeat: 1, want: []int{0, 1, 2, 3, 4, 5}},
		"several, no bookmark":     {after: 3, repeat: 3, want: []int{0, 1, 2, 3, 4, 1, 3, 4, 5}},
		"all that it remembers":    {after: 4, repeat: 30, want: []int{0, 1, 2, 3, 4, 5, 0, 1, 3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for contentType, written := range encodings {
				sent := []string{
					written(t, "ADDED", "a"), written(t, "ADDED", "b"), written(t, "BOOKMARK", ""),
					written(t, "MODIFIED", "a"), written(t, "DELETED", "b"), written(t, "ADDED", "c"),
				}
				seen := -1
				stream := streamOf(t, contentType, strings.Join(sent, ""), func() (Kind, int, time.Duration) {
					if seen++; seen == test.after {
						return RepeatEvents, test.repeat, 0
					}
					return "", 0, 0
				})
				got, err := io.ReadAll(stream)
				require.NoError(t, err)
				var want []string
				for _, i := range test.want {
					want = append(want, sent[i])
				}
				require.Equal(t, strings.Join(want, ""), string(got), contentType)
			}
		})
	}
}

func TestRemembersNotMoreThanItRepeats(t *testing.T) {
	t.Parallel()
	var sent strings.Builder
	for i := range 3 * maxRepeated {
		sent.WriteString(inJSON("ADDED", fmt.Sprint(i)))
	}
	stream := streamOf(t, "application/json", sent.String(), func() (Kind, int, time.Duration) { return "", 0, 0 })
	_, err := io.ReadAll(stream)
	require.NoError(t, err)
	require.Len(t, stream.recent, maxRepeated)
	require.Equal(t, inJSON("ADDED", fmt.Sprint(2*maxRepeated))+"\n", string(stream.recent[0].sent))
}

func TestBrokenStream(t *testing.T) {
	t.Parallel()
	choose := func() (Kind, int, time.Duration) { return DelayEvents, 0, 0 }
	for contentType, written := range encodings {
		whole := written(t, "ADDED", "a")
		for _, cut := range []int{2, 9} {
			got, err := io.ReadAll(streamOf(t, contentType, whole+whole[:cut], choose))
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, contentType)
			require.Equal(t, whole, string(got), "what is whole gets through")
		}
	}
	for contentType, sent := range map[string]string{
		"application/json":                    `"text"`,
		"application/vnd.kubernetes.protobuf": "\x00\x00\x00\x04text",
	} {
		_, err := io.ReadAll(streamOf(t, contentType, sent, choose))
		require.ErrorContains(t, err, "not the event of a watch")
	}
	_, err := readerOf("application/cbor-seq", nil)
	require.ErrorContains(t, err, `Content-Type "application/cbor-seq": the proxy only reads`)
}

// What is not an object as others have it would be passed on without the faults meant for it.
func TestObjectsInProtobufAreWrapped(t *testing.T) {
	t.Parallel()
	sent, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: []byte("object")}}).Marshal()
	require.NoError(t, err)
	var object metav1.PartialObjectMetadata
	require.ErrorContains(t, metadataOf([]byte("object"), &object), `begins with "obje" instead of`)
	frame := append([]byte{0, 0, 0, byte(len(sent))}, sent...)
	_, err = protobufReader(bytes.NewReader(frame))()
	require.ErrorContains(t, err, "not the event of a watch")
}

// As many faults as the rates say, none where there is no rate.
func TestPick(t *testing.T) {
	t.Parallel()
	rates := Rates{Conflict: 0.125, CutAfter: 0.25}
	found := map[Kind]int{}
	const steps = 1024
	for i := range steps {
		found[rates.pick(float64(i)/steps)]++
	}
	require.Equal(t, map[Kind]int{Conflict: 128, CutAfter: 256, "": 640}, found)
	require.Empty(t, Rates(nil).pick(0))
}
