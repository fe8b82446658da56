package booking

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Version is the API version of DeviceBookings.
var Version = schema.GroupVersion{Group: "quartermaster-dra.github.io", Version: "v1alpha1"}

// Kind is the kind of a DeviceBooking.
const Kind = "DeviceBooking"

var resource = Version.WithResource("devicebookings")

// A DeviceBooking books devices for pods at a time.
type DeviceBooking struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// Spec describes the devices, the time, and the pods that they are for.
type Spec struct {
	// Devices are those of one copy, all for one node, as in a claim's spec.
	Devices resourceapi.DeviceClaim `json:"devices"`
	// Count is the number of copies.
	Count int32 `json:"count,omitempty"`
	// TopologyKey is a label of nodes: all copies are on nodes with one value of it.
	TopologyKey string `json:"topologyKey,omitempty"`

	// Start is when the booking starts, or the earliest start of a repeated one, which is its creation if Start is missing.
	Start    *metav1.Time    `json:"start,omitempty"`
	Duration metav1.Duration `json:"duration"`
	// Schedule repeats the booking, as in a CronJob. TimeZone is UTC if it is missing.
	Schedule string `json:"schedule,omitempty"`
	TimeZone string `json:"timeZone,omitempty"`

	// PodSelector selects pods of the namespace. PodGroupName is a PodGroup of the namespace. One of both is set.
	PodSelector  *metav1.LabelSelector `json:"podSelector,omitempty"`
	PodGroupName string                `json:"podGroupName,omitempty"`
	// PriorityClassName has the priority: pods of a higher one may use the devices.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// GracePeriod is the time without pods after which a booking that has started ends.
	GracePeriod metav1.Duration `json:"gracePeriod,omitempty"`
}

// Status describes the outcome so far.
type Status struct {
	// ObservedGeneration is the generation of the spec that the rest is about.
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	// Start and End are those of the present or next time.
	Start *metav1.Time `json:"start,omitempty"`
	End   *metav1.Time `json:"end,omitempty"`
	// Nodes and Devices (DRIVER/POOL/DEVICE) are held, the first ones of many.
	Nodes   []string `json:"nodes,omitempty"`
	Devices []string `json:"devices,omitempty"`
	// LastUsed is when a pod that it is for was last seen since the start. It is written from time to time.
	LastUsed *metav1.Time `json:"lastUsed,omitempty"`
}
