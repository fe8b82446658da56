package api

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// groupServer has PodGroups in some versions of scheduling.k8s.io.
type groupServer struct {
	versions []string
	down     bool

	mutex    sync.Mutex
	requests []string
}

func (s *groupServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mutex.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path+" "+string(body))
	s.mutex.Unlock()
	version, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/behind/proxy/apis/scheduling.k8s.io/"), "/")
	w.Header().Set("Content-Type", "application/json")
	answer := func(o any) { _ = json.NewEncoder(w).Encode(o) }
	group := schedulingapi.PodGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: "scheduling.k8s.io/" + version, Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "train", UID: "1", ResourceVersion: "7"},
		Spec:       schedulingapi.PodGroupSpec{SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: 3}}},
	}
	switch {
	case s.down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case !strings.Contains(" "+strings.Join(s.versions, " ")+" ", " "+version+" "):
		w.WriteHeader(http.StatusNotFound)
	case rest == "":
		answer(metav1.APIResourceList{GroupVersion: "scheduling.k8s.io/" + version, APIResources: []metav1.APIResource{{Name: "podgroups", Namespaced: true, Kind: "PodGroup"}}})
	case r.URL.Query().Get("watch") != "":
		answer(map[string]any{"type": "ADDED", "object": group})
		group.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		answer(map[string]any{"type": "BOOKMARK", "object": group})
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case r.Method == http.MethodGet && rest == "podgroups":
		answer(map[string]any{"kind": "PodGroupList", "apiVersion": group.APIVersion, "metadata": metav1.ListMeta{ResourceVersion: "6"}, "items": []any{}})
	default:
		answer(group)
	}
}

func (s *groupServer) start(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(configOf(server, "/behind/proxy", "application/vnd.kubernetes.protobuf"))
	require.NoError(t, err)
	return client
}

// TestPodGroupsInAnotherVersion: an informer and a patch of v1beta1 use the version that the server has.
func TestPodGroupsInAnotherVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1", "v1alpha3"} {
		server := &groupServer{versions: []string{version}}
		plain := server.start(t)
		client, err := WithPodGroups(plain)
		require.NoError(t, err)
		require.Equal(t, plain.ResourceV1(), client.ResourceV1())
		require.Equal(t, resourceapi.SchemeGroupVersion, client.ResourceV1().RESTClient().APIVersion())

		factory := informers.NewSharedInformerFactory(client, 0)
		groups := factory.Scheduling().V1beta1().PodGroups()
		synced := groups.Informer().HasSynced
		factory.Start(t.Context().Done())
		require.Eventually(t, func() bool {
			_, err := groups.Lister().PodGroups("a").Get("train")
			return synced() && err == nil
		}, patience, 10*time.Millisecond)
		group, err := groups.Lister().PodGroups("a").Get("train")
		require.NoError(t, err)
		require.Equal(t, int32(3), group.Spec.SchedulingPolicy.Gang.MinCount)

		_, err = client.SchedulingV1beta1().PodGroups("a").Patch(t.Context(), "train", types.StrategicMergePatchType, []byte(`{"status":{}}`), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
		server.mutex.Lock()
		require.Contains(t, server.requests, "PATCH /behind/proxy/apis/scheduling.k8s.io/"+version+`/namespaces/a/podgroups/train/status {"status":{}}`)
		server.mutex.Unlock()
	}
}

// TestPodGroupsOfTheClient: nothing is replaced where the server has v1beta1, has no PodGroups, or does not answer.
func TestPodGroupsOfTheClient(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]*groupServer{
		"v1beta1 among others": {versions: []string{"v1", "v1beta1", "v1alpha3"}},
		"none":                 {},
		"unknown version":      {versions: []string{"v2"}},
		"no answer":            {down: true},
	} {
		plain := server.start(t)
		client, err := WithPodGroups(plain)
		require.Equal(t, server.down, err != nil, "%s: %v", name, err)
		require.Same(t, plain, client, name)
	}
}
