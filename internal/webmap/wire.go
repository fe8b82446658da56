package webmap

import "encoding/json"

// What goes over the wire. A cluster of 5,000 nodes with eight devices each has to be there at once, so names are
// short, what nodes with the same hardware have in common is sent once (Layout), and of a device only its
// state is sent: its attributes are asked for when somebody looks at it.

// State is all of the map at one moment.
type State struct {
	// Version counts what was shown since the server started.
	Version uint64   `json:"v"`
	Meta    Meta     `json:"meta"`
	Layouts []Layout `json:"layouts"`
	// Tiles are encoded Tiles by name.
	Tiles []json.RawMessage `json:"tiles"`
}

// Delta is what changed after the version before.
type Delta struct {
	Version uint64 `json:"v"`
	// Layouts are new, and follow those known.
	Layouts []Layout `json:"layouts,omitempty"`
	// Tiles are those that are new or changed, Gone the names of those that are no more.
	Tiles []json.RawMessage `json:"tiles,omitempty"`
	Gone  []string          `json:"gone,omitempty"`
	// Meta is nil if it is the same.
	Meta *Meta `json:"meta,omitempty"`
}

// Meta is what is no tile.
type Meta struct {
	// Source says what is looked at.
	Source string `json:"source"`
	// Published counts changes of what devices there are: matches and values of attributes are to be asked for again.
	Published uint64   `json:"published"`
	Classes   []string `json:"classes"`
	// Attributes are the names of all attributes, as driver/name where the driver left that out.
	Attributes []string  `json:"attributes"`
	Namespaces []string  `json:"namespaces"`
	Waiting    []Waiting `json:"waiting"`
	// Problems are what is wrong with what is shown. Without is how many nodes have no devices.
	Problems []string `json:"problems"`
	Without  int      `json:"without"`
}

// Waiting is a pod without a node that asks for devices.
type Waiting struct {
	Pod      string `json:"pod"`
	Priority int32  `json:"priority,omitempty"`
	// Since is when it was created, in seconds.
	Since int64 `json:"since,omitempty"`
	// Message is what a scheduler has said last.
	Message string `json:"message,omitempty"`
}

// Layout is what tiles with the same devices have in common.
type Layout struct {
	// Names are those of the devices. Pools says for each in which of the tile's pools it is.
	Names []string `json:"n"`
	Pools []int    `json:"p"`
	// Parts says for each device in which of the Wholes it is, -1 for none. It is empty if there are no Wholes.
	Parts  []int   `json:"g,omitempty"`
	Wholes []Whole `json:"w,omitempty"`
}

// Whole is a counter set that several devices draw from: a GPU and its partitions (KEP-4815).
type Whole struct {
	Name string `json:"n"`
	// Device is the one that takes all of it, -1 if there is none.
	Device int `json:"d"`
}

// Tile is a node with its devices, or a pool that is for several nodes.
type Tile struct {
	Name string `json:"n"`
	// Shared is set for pools for several nodes. Their name is driver/pool.
	Shared bool `json:"x,omitempty"`
	// Unready nodes take no pods, or do not exist.
	Unready bool     `json:"r,omitempty"`
	Layout  int      `json:"l"`
	Pools   []string `json:"p"`
	// States has one letter for each device.
	States string `json:"s"`
	// Tainted are devices with a taint that keeps pods away.
	Tainted []int `json:"t,omitempty"`
	// Levels says how much of a shared device is taken, in percent, and WholeLevels the same for the Wholes.
	Levels      map[int]int `json:"u,omitempty"`
	WholeLevels []int       `json:"wl,omitempty"`
	// Holders are the claims of devices in use, as namespace/name.
	Holders map[int][]string `json:"h,omitempty"`
	// Conflicts are devices that several claims hold for themselves.
	Conflicts []int `json:"c,omitempty"`
	// Problem says why some of the devices are Unknown.
	Problem string `json:"e,omitempty"`
}

// The states of devices.
const (
	// Free devices are nobody's.
	Free = 'f'
	// Allocated ones are one claim's.
	Allocated = 'a'
	// InShares are used by claims in parts (KEP-5075).
	InShares = 's'
	// Blocked ones draw from counters of which too little is left: other partitions of their GPU are in use.
	Blocked = 'x'
	// Unknown is what cannot be told, because the pool is not complete or claims could not be read.
	Unknown = '?'
)
