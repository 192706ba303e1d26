/**
 * A small job queue for services that already have a database.
 *
 * @packageDocumentation
 */

/** How many attempts a job gets before it is buried. */
export const MOST_ATTEMPTS = 7;

/** What a queue is opened with. */
export interface QueueOptions {
  /** Letters and digits, at most forty. */
  name: string;
  /** How long a worker owns a job without a heartbeat, in seconds. */
  lease?: number;
}

/**
 * Keeps jobs in a table and hands each of them to exactly one worker.
 *
 * Jobs that fail wait with exponential backoff; after the last attempt they move to the graveyard.
 *
 * @example
 * ```ts
 * const mail = new Queue({ name: "mail" });
 * mail.enqueue("send_receipt", 4711);
 * ```
 */
export class Queue {
  /** Makes a queue that is ready to take jobs. */
  constructor(private readonly options: QueueOptions) {}

  /**
   * Puts a job into the table, within the transaction that is open.
   *
   * @param function_ - the registered name of what is to be run
   * @param rest - passed on as they are
   * @returns the number of the job
   * @throws RangeError if the name is not registered
   */
  enqueue(function_: string, ...rest: unknown[]): number {
    return 0;
  }
}
