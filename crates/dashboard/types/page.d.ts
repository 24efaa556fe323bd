// What the modules of the pages share.

/** What the address names, drawn into the page by its module. */
interface View {
  title: string;
  root: HTMLElement;
  /** Loads the view's data again. */
  refresh: () => unknown;
  /** Called every few seconds; `refresh` if missing. */
  poll?: () => unknown;
  onOverview?: (overview: Api.Overview) => void;
  onNotices?: (notices: Api.Notice[]) => void;
  /** Called every second. */
  onTick?: () => void;
  /** Handles a key, and returns whether it did. */
  onKey?: (key: string) => boolean;
  close?: () => void;
}

/** uPlot, which the page loads as a script. */
declare var uPlot: any;
