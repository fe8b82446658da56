package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// podServer has the pods of an old server, as text.
type podServer struct {
	*httptest.Server
	version string

	mutex    sync.Mutex
	received map[string]any // the body of the last request that had one
	accepts  []string
}

const oldPodText = `{"apiVersion":"v1","kind":"Pod",
	"metadata":{"name":"pod","namespace":"default","resourceVersion":"%d"},
	"spec":{"containers":[],"activeDeadlineSeconds":9007199254740993,"resourceClaims":[
		{"name":"mine","source":{"resourceClaimName":"by-name"}},
		{"name":"made","source":{"resourceClaimTemplateName":"template"}}]},
	"status":{%s}}`

const recorded = `"resourceClaimStatuses":[{"name":"made","resourceClaimName":"pod-made-x7"}]`

func startPodServer(t *testing.T, version string) *podServer {
	s := &podServer{version: version}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *podServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	status := recorded
	if strings.HasPrefix(s.version, "v1.27.") {
		status = ""
	}
	switch {
	case r.URL.Path == "/prefix/version":
		fmt.Fprintf(w, `{"gitVersion":%q}`, s.version)
		return
	case !strings.HasPrefix(r.URL.Path, "/prefix/api/v1/"):
		http.NotFound(w, r)
		return
	}
	s.mutex.Lock()
	s.accepts = append(s.accepts, r.Header.Get("Accept"))
	if body, _ := io.ReadAll(r.Body); len(body) > 0 {
		s.received = nil
		if err := json.Unmarshal(body, &s.received); err != nil {
			s.received = map[string]any{"unreadable": err.Error()}
		}
	}
	s.mutex.Unlock()
	switch {
	case r.URL.Query().Get("watch") != "":
		fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", fmt.Sprintf(oldPodText, 7, status))
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/pods"):
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"6"},"items":[
			{"metadata":{"name":"plain"},"spec":{"containers":[]}},%s]}`, fmt.Sprintf(oldPodText, 5, status))
	default:
		fmt.Fprintf(w, oldPodText, 5, status)
	}
}

func (s *podServer) clientset(t *testing.T, claims Version) *clientset {
	config := configOf(s.Server, "/prefix", "application/vnd.kubernetes.protobuf")
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	served := newServed(client.Discovery(), clock.RealClock{})
	served.take(klog.Background(), map[string]Version{claimResource: claims})
	return newClientset(client, served)
}

// todays returns a pod with references in the current fields.
func todays(generated string) *v1.Pod {
	pod := &v1.Pod{}
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{
		{Name: "mine", ResourceClaimName: ptr.To("by-name")},
		{Name: "made", ResourceClaimTemplateName: ptr.To("template")},
	}
	pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "made", ResourceClaimName: &generated}}
	return pod
}

func requireClaims(t *testing.T, want, got *v1.Pod) {
	t.Helper()
	require.Empty(t, cmp.Diff(want.Spec.ResourceClaims, got.Spec.ResourceClaims))
	require.Empty(t, cmp.Diff(want.Status.ResourceClaimStatuses, got.Status.ResourceClaimStatuses))
}

func TestOldPodsAreRead(t *testing.T) {
	t.Parallel()
	for version, generated := range map[string]string{"v1.30.4": "pod-made-x7", "v1.28.0-rc.1": "pod-made-x7", "v1.27.9-gke.1": "pod-made"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := startPodServer(t, version)
			pods := s.clientset(t, V1alpha2).CoreV1().Pods("default")
			want := todays(generated)

			pod, err := pods.Get(t.Context(), "pod", metav1.GetOptions{})
			require.NoError(t, err)
			requireClaims(t, want, pod)

			list, err := pods.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			require.Equal(t, "6", list.ResourceVersion)
			require.Len(t, list.Items, 2)
			require.Empty(t, list.Items[0].Spec.ResourceClaims)
			requireClaims(t, want, &list.Items[1])

			watch, err := pods.Watch(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			defer watch.Stop()
			event := <-watch.ResultChan()
			require.IsType(t, &v1.Pod{}, event.Object)
			requireClaims(t, want, event.Object.(*v1.Pod))
			require.NotContains(t, strings.Join(s.accepts, " "), "protobuf")
		})
	}
}

// What is read can be written back as it was.
func TestOldPodsAreWritten(t *testing.T) {
	t.Parallel()
	s := startPodServer(t, "v1.30.4")
	pods := s.clientset(t, V1alpha2).CoreV1().Pods("default")
	pod, err := pods.Get(t.Context(), "pod", metav1.GetOptions{})
	require.NoError(t, err)
	for name, write := range map[string]func() error{
		"create": func() error { _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); return err },
		"update": func() error { _, err := pods.Update(t.Context(), pod, metav1.UpdateOptions{}); return err },
	} {
		require.NoError(t, write(), name)
		var want map[string]any
		require.NoError(t, json.Unmarshal([]byte(fmt.Sprintf(oldPodText, 5, recorded)), &want))
		require.Equal(t, want["spec"].(map[string]any)["resourceClaims"], s.received["spec"].(map[string]any)["resourceClaims"], name)
	}
	require.Equal(t, int64(9007199254740993), *pod.Spec.ActiveDeadlineSeconds)
	encoded, err := runtime.Encode(podSourceEncoder{podEncoder(), &oldServer{served: &Served{versions: map[string]Version{claimResource: V1alpha2}}}}, pod)
	require.NoError(t, err)
	require.Contains(t, string(encoded), `"activeDeadlineSeconds":9007199254740993`)
}

func podEncoder() runtime.Encoder {
	codecs := podSources{NegotiatedSerializer: clientscheme.Codecs.WithoutConversion()}
	return codecs.NegotiatedSerializer.EncoderForVersion(codecs.SupportedMediaTypes()[0].Serializer, v1.SchemeGroupVersion)
}

// What the scheduler writes about pods has nothing to do with claims, and is sent as it is.
func TestOldPodsArePatchedAndBound(t *testing.T) {
	t.Parallel()
	s := startPodServer(t, "v1.30.4")
	pods := s.clientset(t, V1alpha2).CoreV1().Pods("default")
	pod, err := pods.Patch(t.Context(), "pod", types.StrategicMergePatchType, []byte(`{"status":{"nominatedNodeName":"a"}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	requireClaims(t, todays("pod-made-x7"), pod)
	require.Equal(t, map[string]any{"status": map[string]any{"nominatedNodeName": "a"}}, s.received)

	binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default"}, Target: v1.ObjectReference{Kind: "Node", Name: "a"}}
	require.NoError(t, pods.Bind(t.Context(), binding, metav1.CreateOptions{}))
	require.Equal(t, map[string]any{"kind": "Node", "name": "a"}, s.received["target"])
	require.NotContains(t, s.received, "spec")
}

// A server that has not said yet what it is, or has no claims yet, may be an old one: a pod
// that is known without its claims would stay so.
func TestPodsOfUnknownServers(t *testing.T) {
	t.Parallel()
	s := startPodServer(t, "v1.30.4")
	silent := s.clientset(t, None)
	silent.resources.served.answered = time.Time{}
	for name, c := range map[string]*clientset{"has not answered": silent, "has no claims": s.clientset(t, None)} {
		pods := c.CoreV1().Pods("default")
		pod, err := pods.Get(t.Context(), "pod", metav1.GetOptions{})
		require.NoError(t, err, name)
		requireClaims(t, todays("pod-made-x7"), pod)
		_, err = pods.Update(t.Context(), pod, metav1.UpdateOptions{})
		require.NoError(t, err, name)
		references := s.received["spec"].(map[string]any)["resourceClaims"].([]any)
		require.Equal(t, map[string]any{
			"name": "mine", "resourceClaimName": "by-name", "source": map[string]any{"resourceClaimName": "by-name"},
		}, references[0], "%s: whatever the server is, it finds the name", name)
	}
}

// What the client set has found out later counts as well, for informers made before.
func TestOldPodsAreNoticedLater(t *testing.T) {
	t.Parallel()
	c := startPodServer(t, "v1.30.4").clientset(t, V1)
	read := func() *v1.Pod {
		pod, err := c.CoreV1().Pods("default").Get(t.Context(), "pod", metav1.GetOptions{})
		require.NoError(t, err)
		return pod
	}
	require.Nil(t, read().Spec.ResourceClaims[0].ResourceClaimName)
	c.resources.served.take(klog.Background(), map[string]Version{claimResource: V1alpha2})
	requireClaims(t, todays("pod-made-x7"), read())
}

// Servers that are not that old are used as if there had never been any.
func TestPodsOfToday(t *testing.T) {
	t.Parallel()
	s := startPodServer(t, "v1.31.4")
	for _, version := range []Version{V1, V1beta1, V1alpha3} {
		c := s.clientset(t, version)
		require.Same(t, c.Interface.CoreV1(), c.CoreV1(), version)
	}
}
