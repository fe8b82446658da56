package web

import "encoding/json"

// The format of the state on the wire. A cluster of 5,000 nodes with eight devices each must load at once. So names
// are short, nodes with the same hardware share a Layout, which is sent once, and each device is sent as its state
// only: the page asks for attributes when the user looks at a device.

// State is the whole map at one moment.
type State struct {
	// Version counts the versions since the server started.
	Version uint64   `json:"v"`
	Meta    Meta     `json:"meta"`
	Layouts []Layout `json:"layouts"`
	// Tiles are the encoded Tiles by name.
	Tiles []json.RawMessage `json:"tiles"`
}

// Delta is the difference to the previous version.
type Delta struct {
	Version uint64 `json:"v"`
	// Layouts are new layouts, to append to the known ones.
	Layouts []Layout `json:"layouts,omitempty"`
	// Tiles are new or changed tiles, and Gone the names of removed ones.
	Tiles []json.RawMessage `json:"tiles,omitempty"`
	Gone  []string          `json:"gone,omitempty"`
	// Meta is nil if it has not changed.
	Meta *Meta `json:"meta,omitempty"`
}

// Meta is everything apart from tiles and layouts.
type Meta struct {
	// Source describes the cluster or dump.
	Source string `json:"source"`
	// Published counts changes of the published devices: after one, the page must ask for matches and attribute
	// values again.
	Published uint64   `json:"published"`
	Classes   []string `json:"classes"`
	// Attributes are the names of all attributes; where the driver omitted the domain, it is the driver.
	Attributes []string  `json:"attributes"`
	Namespaces []string  `json:"namespaces"`
	Waiting    []Waiting `json:"waiting"`
	// Problems are problems of the objects. Without is the number of nodes without devices.
	Problems []string `json:"problems"`
	Without  int      `json:"without"`
}

// Waiting is a pod without a node that asks for devices.
type Waiting struct {
	Pod      string `json:"pod"`
	Priority int32  `json:"priority,omitempty"`
	// Since is the time of creation in Unix seconds.
	Since int64 `json:"since,omitempty"`
	// Message is the last message of a scheduler.
	Message string `json:"message,omitempty"`
	// Held says which devices are held for the pod, or for its group; only one pod of a group has it.
	Held string `json:"held,omitempty"`
}

// Layout is the common part of tiles with the same devices.
type Layout struct {
	// Names are the names of the devices. Pools has the index of each device's pool among the tile's pools.
	Names []string `json:"n"`
	Pools []int    `json:"p"`
	// Parts has the index of each device's whole in Wholes, -1 for none. It is empty if there are no Wholes.
	Parts  []int   `json:"g,omitempty"`
	Wholes []Whole `json:"w,omitempty"`
}

// Whole is a counter set that several devices draw from: a GPU and its partitions (KEP-4815).
type Whole struct {
	Name string `json:"n"`
	// Device is the index of the device that consumes the whole set, -1 if there is none.
	Device int `json:"d"`
}

// Tile is a node with its local devices, or a pool for several nodes.
type Tile struct {
	Name string `json:"n"`
	// Shared is set for pools for several nodes. Their tile name is driver/pool.
	Shared bool `json:"x,omitempty"`
	// Unready nodes take no pods, or do not exist.
	Unready bool     `json:"r,omitempty"`
	Layout  int      `json:"l"`
	Pools   []string `json:"p"`
	// States has one letter for each device.
	States string `json:"s"`
	// Tainted are devices with a taint that keeps pods away.
	Tainted []int `json:"t,omitempty"`
	// Levels has the used part of each shared device in percent, and WholeLevels that of each whole.
	Levels      map[int]int `json:"u,omitempty"`
	WholeLevels []int       `json:"wl,omitempty"`
	// Holders are the claims that hold devices, as namespace/name.
	Holders map[int][]string `json:"h,omitempty"`
	// Conflicts are devices that several claims hold exclusively.
	Conflicts []int `json:"c,omitempty"`
	// Problem says why some of the devices are Unknown.
	Problem string `json:"e,omitempty"`
}

// The states of devices.
const (
	// Free devices have no holder.
	Free = 'f'
	// Allocated devices are held by one claim.
	Allocated = 'a'
	// InShares devices are used by claims in parts (KEP-5075).
	InShares = 's'
	// Blocked devices draw from counters with too little left, because other partitions of their GPU are in use.
	Blocked = 'x'
	// Unknown devices are in an incomplete pool, or some claims could not be read.
	Unknown = '?'
)
